"""Where work runs: threads of this process, processes of this machine, a scheduler that is there, Slurm, Kubernetes."""

from calibdask.cluster.connecting import connected
from calibdask.cluster.places import ClusterLost, Place
from calibdask.cluster.words import place

__all__ = ["ClusterLost", "Place", "connected", "place"]
