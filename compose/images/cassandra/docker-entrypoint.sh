#!/usr/bin/env bash
# Writes cassandra.yaml as the environment asks for it, with the official image's variables, and runs the command.
set -eu
address=$(hostname -i)
address=${address%% *}
: "${CASSANDRA_LISTEN_ADDRESS:=auto}"
[ "$CASSANDRA_LISTEN_ADDRESS" != auto ] || CASSANDRA_LISTEN_ADDRESS=$address
: "${CASSANDRA_BROADCAST_ADDRESS:=$CASSANDRA_LISTEN_ADDRESS}"
[ "$CASSANDRA_BROADCAST_ADDRESS" != auto ] || CASSANDRA_BROADCAST_ADDRESS=$address
: "${CASSANDRA_RPC_ADDRESS:=0.0.0.0}" "${CASSANDRA_BROADCAST_RPC_ADDRESS:=$CASSANDRA_BROADCAST_ADDRESS}"
: "${CASSANDRA_SEEDS:=$CASSANDRA_BROADCAST_ADDRESS}" "${CASSANDRA_CLUSTER_NAME:=Test Cluster}"
: "${CASSANDRA_NUM_TOKENS:=16}" "${CASSANDRA_ENDPOINT_SNITCH:=SimpleSnitch}"
data=/var/lib/cassandra

cat >"$CASSANDRA_CONF/cassandra-rackdc.properties" <<PROPERTIES
dc=${CASSANDRA_DC:-dc1}
rack=${CASSANDRA_RACK:-rack1}
PROPERTIES
cat >"$CASSANDRA_CONF/cassandra.yaml" <<YAML
cluster_name: '$CASSANDRA_CLUSTER_NAME'
num_tokens: $CASSANDRA_NUM_TOKENS
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: $CASSANDRA_ENDPOINT_SNITCH
listen_address: $CASSANDRA_LISTEN_ADDRESS
broadcast_address: $CASSANDRA_BROADCAST_ADDRESS
rpc_address: $CASSANDRA_RPC_ADDRESS
broadcast_rpc_address: $CASSANDRA_BROADCAST_RPC_ADDRESS
storage_port: 7000
native_transport_port: 9042
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "$CASSANDRA_SEEDS"
data_file_directories: [$data/data]
commitlog_directory: $data/commitlog
saved_caches_directory: $data/saved_caches
hints_directory: $data/hints
cdc_raw_directory: $data/cdc_raw
commitlog_sync: periodic
commitlog_sync_period: 10000ms
YAML
exec "$@"
