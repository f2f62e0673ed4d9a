"""Hot configuration: a few settings that all workers take up while they run, in versions."""
