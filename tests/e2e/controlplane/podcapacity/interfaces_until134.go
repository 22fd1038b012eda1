//go:build !from135

package podcapacity

import "k8s.io/kubernetes/pkg/scheduler/framework"

// The scheduler's interfaces, which 1.35 moved to another package.
type (
	handle          = framework.Handle
	plugin          = framework.Plugin
	scorePlugin     = framework.ScorePlugin
	scoreExtensions = framework.ScoreExtensions
)

const minScore, maxScore = framework.MinNodeScore, framework.MaxNodeScore
