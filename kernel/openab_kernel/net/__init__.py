"""What channels share to reach their platforms. Network libraries are imported here and nowhere else."""
