"""Where work runs: threads of this process, processes of this machine, a scheduler that is there, Slurm, Kubernetes."""

from calibdask.cluster.places import ClusterLost, Place, connected, place

__all__ = ["ClusterLost", "Place", "connected", "place"]
