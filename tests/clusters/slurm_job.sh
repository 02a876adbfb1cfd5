#!/usr/bin/env bash

#SBATCH -J calibdask
#SBATCH -e slurm-logs/calibdask-%J.err
#SBATCH -o slurm-logs/calibdask-%J.out
#SBATCH -n 1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH -t 01:00:00
#SBATCH --no-requeue

python -m distributed.cli.dask_worker tls://ADDRESS --name dummy-name --nthreads 4 --memory-limit 7.45GiB --nanny --death-timeout 60 --lifetime 52m --lifetime-stagger 4m --no-dashboard --dashboard-address 127.0.0.1:0 --interface lo --protocol tls:// --tls-ca-file HERE/tls/ca.pem --tls-cert HERE/tls/node.pem --tls-key HERE/tls/node-key.pem
