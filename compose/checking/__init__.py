"""The checker: from recorded histories, by set arithmetic, whether every tick was true."""
