"""What keeps a run from doing harm: the brakes of the policy, and the lease that lets only one run act."""
