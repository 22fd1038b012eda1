//go:build from135

package podcapacity

import "k8s.io/kube-scheduler/framework"

// The scheduler's interfaces, as from 1.35 on.
type (
	handle          = framework.Handle
	plugin          = framework.Plugin
	scorePlugin     = framework.ScorePlugin
	scoreExtensions = framework.ScoreExtensions
)

const minScore, maxScore = framework.MinNodeScore, framework.MaxNodeScore
