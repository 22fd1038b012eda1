"""The commented policy that ``rebalancer policy init`` prints."""

from __future__ import annotations

STARTER = """\
# A policy for rebalancer: which nodes are hot, which pods may be evicted, and how carefully.
# Every key has a default; the values below are the defaults. Delete what you do not want to change.
# Check it with: rebalancer policy validate FILE
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata:
  name: default

# The scheduler that will place replacements. Without configMap, file or inline, the defaults of its version
# are used (offline: the configuration recorded with the cluster).
scheduler:
  # version: "1.35"             # read from the cluster when absent
  # configMap: {namespace: kube-system, name: scheduler-config, key: scheduler-config.yaml}
  profiles: []                  # schedulerNames to act on; [] means all in the configuration
  assumeNeutral: []             # plugins we do not know, taken to score all nodes alike
  # mirror:                     # plugins we do not know whose score is a PromQL result
  #   - plugin: OurTraffic
  #     prometheusScore: {address: "http://prometheus.monitoring:9090", query: "...", nodeLabel: node}
  allowUnverifiedVersion: false # let `run` act on scheduler versions whose rules were not verified
  allowUnpredictable: false     # let pods be evicted whose placement cannot be computed with certainty

# How busy nodes are. The first source with a fresh figure wins, node by node and resource by resource.
load:
  sources:
    # - prometheus: {address: "http://prometheus.monitoring:9090", preset: nodeExporter}
    # - loadWatcher: {address: "http://load-watcher.loadwatcher:2020"}
    - metricsServer: {}
  window: 0s                    # how far back figures look, e.g. 15m: a spike is not a hot node
  statistic: mean               # of the window: mean, max, meanPlusDeviation, or a percentile such as p95
  # signals: {disk: {query: "...", capacity: "100"}}   # more resources, by PromQL; name them in rules
  maxAge: 3m                    # an older figure does not count
  minCoverage: 80%              # of the nodes; below it the run refuses to act

# A node is hot if any rule says so, and cool when none is above its coolTo. Percentages are of allocatable.
hotNodes:
  forRuns: 2                    # hot in this many consecutive runs before anything is evicted
  any:
    - utilization: {cpu: 80, memory: 85}
      coolTo: {cpu: 65, memory: 75}
    # - deviation: {cpu: 20}    # points above the mean of the nodes
    #   coolTo: {cpu: 10}
    #   floor: {cpu: 50}        # but never hot below this
    # - score: {plugins: [TargetLoadPacking], below: 20}   # the scheduler's own view
  # nodeSelector: {matchLabels: {role: worker}}   # only these nodes are ever hot
  # pools:                      # nodes with thresholds of their own; never hot without any
  #   - {name: gpu, nodeSelector: {matchLabels: {pool: gpu}}, any: [{utilization: {cpu: 90}}]}

# Pods that may be evicted. Static, DaemonSet, finished and uncontrolled pods never are.
evictable:
  minAge: 10m
  priorityBelow: 2000000000     # system-cluster-critical and system-node-critical pods stay
  namespaces:
    include: []                 # [] means all
    exclude: [kube-system]
  protect: [LocalStorage, PersistentVolumes, SingleReplica]
  jobs: false                   # whether pods of Jobs may be evicted that bear it
  minReplicas: 1                # pods of smaller workloads stay
  # podSelector: {matchLabels: {tier: web}}    # only pods with these labels
  # protectStorageClasses: [local-path]        # pods with claims of these classes stay
  # windows:                                   # evict at these times only
  #   - {days: [Sat, Sun], from: "22:00", to: "06:00", timeZone: Europe/Berlin}

# The most evictions in one run.
limits:
  perRun: 20
  perNode: 4
  perNamespace: 10
  perWorkload: 10%              # of desired replicas, rounded up

planning:
  minGain: 5                    # points of allocatable that a move must win
  confidence: 0.95              # that every landing of the plan is acceptable
  cooldown: 1h                  # a moved pod's workload is left alone this long
  badLandingCooldown: 24h       # and this long where its pod landed badly
  maxPlacements: 20000          # the planner's budget of computed placements
  # Of equally small sets of pods the cheapest moves; what counts, and how much:
  weights: {fit: 1, priority: 1, podDeletionCost: 1, age: 0.1, replicas: 0.5, readiness: 0.5}

strategies:
  misplaced: false              # move pods that their node would not admit any more, too

execution:
  waveSize: 5
  firstWave: 1                  # begin with one pod and see it land
  waveTimeout: 5m
  onUnexpectedLanding: stop     # or continue

# The brakes, read again before each wave.
safety:
  pause: false
  maxNotReadyNodes: 5%
  maxPendingPods: 20
"""
