//go:build from131

package main

import (
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func init() {
	lists["poddisruptionbudgets"] = func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} }
	lists["csistoragecapacities"] = func() runtime.Object { return &storagev1.CSIStorageCapacityList{} }
}
