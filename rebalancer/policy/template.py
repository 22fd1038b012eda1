"""The commented policy that ``rebalancer policy init`` prints."""

from __future__ import annotations

STARTER = """\
# yaml-language-server: $schema=schema.json
# The line above lets editors complete and check this file: rebalancer policy schema > schema.json
# A policy for rebalancer: which nodes are hot, which pods may be evicted, and how carefully.
# Every key has a default; the values below are the defaults. Delete what you do not want to change.
# Check it with: rebalancer policy validate FILE
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata:
  name: default

# The scheduler that will place the replacements. Without configMap, file or inline, the defaults of its
# version are used (offline: the configuration that was recorded with the cluster).
scheduler:
  # version: "1.35"             # read from the cluster when absent
  # configMap: {namespace: kube-system, name: scheduler-config, key: scheduler-config.yaml}
  # lease: {namespace: kube-system, name: kube-scheduler}   # by which it shows that it is alive
  # cores: 4                    # that it runs on; those of its pod's node when absent
  profiles: []                  # act on pods with these schedulerNames; [] means all profiles
  assumeNeutral: []             # unknown plugins, assumed to score all nodes the same
  # mirror:                     # unknown plugins whose score is the result of a PromQL query
  #   - plugin: OurTraffic
  #     prometheusScore: {address: "http://prometheus.monitoring:9090", query: "...", nodeLabel: node}
  featureGates: {}              # as on its command line, e.g. {PodLevelResources: true}; read from its pod
  allowUnverifiedVersion: false # let `run` act on scheduler versions that were not verified
  allowUnpredictable: false     # evict pods even if their placement cannot be predicted

# How load is measured. For each node and resource, the first source with a fresh figure is used.
load:
  sources:
    # - prometheus: {address: "http://prometheus.monitoring:9090", preset: nodeExporter}
    # - loadWatcher: {address: "http://load-watcher.loadwatcher:2020"}
    - metricsServer: {}
  window: 0s                    # how far back to look, e.g. 15m, so that a spike makes no node hot
  statistic: mean               # over the window: mean, max, meanPlusDeviation, predictedPeak, p1 to p99,
                                # or one for each resource, e.g. {cpu: p66, memory: p95}
  # signals: {disk: {query: "...", capacity: "100"}}   # further resources for the rules
  maxAge: 3m                    # older figures are not used
  minCoverage: 80%              # of the nodes need a fresh figure, or a run refuses to act

# A node is hot if any rule matches; the goal is to bring it down to coolTo. Percentages are of allocatable.
hotNodes:
  forRuns: 2                    # evict only from nodes that were hot in this many consecutive runs
  runInterval: 15m              # how often runs are scheduled; two within half of it count as one
  checkInterval: 1m             # serve: how often to look between runs whether a node turned hot; 0s: never
  minRunInterval: 5m            # serve: then a run begins early, at least so long after the one before
  any:
    - utilization: {cpu: 80, memory: 85}
      coolTo: {cpu: 65, memory: 75}
    # - deviation: {cpu: 20}    # percentage points above the mean of the nodes
    #   coolTo: {cpu: 10}
    #   floor: {cpu: 50}        # never hot below this
    # - utilization: {cpu: 70}  # hot only if pods wait as well, in percent of the time, by Prometheus
    #   pressure: {cpu: 20, memory: 5}
    # - score: {plugins: [TargetLoadPacking], below: 20}   # the scheduler's own score
  # nodeSelector: {matchLabels: {role: worker}}   # only these nodes can be hot
  # pools:                      # nodes with thresholds of their own; without rules they are never hot
  #   - {name: gpu, nodeSelector: {matchLabels: {pool: gpu}}, any: [{utilization: {cpu: 90}}]}

# Which pods may be evicted. Static, DaemonSet, finished and uncontrolled pods never are.
evictable:
  minAge: 10m
  priorityBelow: 2000000000     # protects system-cluster-critical and system-node-critical pods
  namespaces:
    include: []                 # [] means all
    exclude: [kube-system]
  protect: [LocalStorage, PersistentVolumes, SingleReplica]
  singleReplica: evict          # surge: moved by the rolling update of its Deployment, without downtime
  jobs: false                   # also evict pods of Jobs that tolerate it
  minJobRemaining: 30m          # but none that will end within this
  # controllers: [{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet}]   # other kinds that recreate pods
  minReplicas: 1                # protect pods of workloads with fewer desired replicas
  # podSelector: {matchLabels: {tier: web}}    # only pods with these labels
  # protectStorageClasses: [local-path]        # protect pods with volumes of these classes
  # windows:                                   # evict only at these times
  #   - {days: [Sat, Sun], from: "22:00", to: "06:00", timeZone: Europe/Berlin}

# How many pods one run may evict.
limits:
  perRun: 20
  perNode: 4
  perNamespace: 10
  perWorkload: 10%              # of desired replicas, rounded up

planning:
  aggressiveness: 3             # 1 moves few pods, for large gains; 5 takes every improvement. It sets:
  # minGain: 5                  # minimum gain of a move, in percentage points of allocatable
  # partialRelief: true         # relieve a node even if it stays hot; false: only nodes that cool down
  # leastRelief: 1              # minimum excess, in points above coolTo, that a move removes per unit of cost
  # confidence: 0.95            # minimum probability that every pod of the plan lands well
  cooldown: 1h                  # after a move, leave the pod's workload alone for this long,
  cooldownMax: 24h              # doubled with each further run that moves it, up to this,
  cooldownWindow: 48h           # counting the runs of so long
  badLandingCooldown: 24h       # and for this long after a bad landing
  maxAfter: {cpu: 95, memory: 90}   # never fill a node above these percentages of allocatable
  terminationRace: strict       # or: likely, where pods take far longer to terminate than to be scheduled
  maxPlacements: 20000          # how many placements the planner may compute
  # Among equally small sets of pods the least disruptive one moves; how much each aspect counts:
  weights:
    {fit: 1, fragmentation: 0.5, priority: 1, podDeletionCost: 1, evictionCost: 1,
     age: 0.1, replicas: 0.5, readiness: 0.5, timeToReady: 0.5, volumes: 0.5}

strategies:
  misplaced: false              # also move pods that their node would no longer admit
  # misplaced: {excludedTaints: [dedicated=batch, "node.kubernetes.io/*"]}   # on, but not for these taints

execution:
  waveSize: 5
  firstWave: 1                  # start with one pod to see where it lands
  waveTimeout: 5m
  onUnexpectedLanding: stop     # or: continue

# Conditions that stop a run; they are checked before each wave, pause before each eviction.
safety:
  pause: false                  # a run at work: kubectl -n rebalancer create configmap rebalancer-pause
  maxNotReadyNodes: 5%
  maxPendingPods: 20
  unknownScheduler: stop        # when it cannot be seen whether the scheduler is alive; or: proceed
"""
