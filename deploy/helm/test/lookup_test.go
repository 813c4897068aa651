package test

import (
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// api answers the look-ups of a chart as a Kubernetes API would.
type api struct{ client dynamic.Interface }

// GetClientFor implements engine.ClientProvider.
func (a api) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	group, err := schema.ParseGroupVersion(apiVersion)
	plural := map[string]string{"StatefulSet": "statefulsets", "PersistentVolumeClaim": "persistentvolumeclaims", "Secret": "secrets"}[kind]
	return a.client.Resource(group.WithResource(plural)), true, err
}

// running is a cluster with a StatefulSet of so many replicas, and volumes.
func running(replicas int, volumes ...string) engine.ClientProvider {
	object := func(apiVersion, kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "counting"},
		}}
	}
	set := object("apps/v1", "StatefulSet", "weir")
	set.Object["spec"] = map[string]any{"replicas": int64(replicas)}
	all := []runtime.Object{set}
	for _, name := range volumes {
		all = append(all, object("v1", "PersistentVolumeClaim", name))
	}
	return api{fake.NewSimpleDynamicClient(runtime.NewScheme(), all...)}
}
