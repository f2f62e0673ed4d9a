"""Statistics of a whole deployment: each owner writes its partitions' shares, whoever asks sums them."""
