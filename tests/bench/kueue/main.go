// Command kueue times Kueue's own topology check, driven through its exported API, for tests/bench/kueue/__main__.py.
//
// It holds -nodes nodes of 8 GPUs in racks of -rack-size in a scheduler Cache, with a Topology, a ResourceFlavor and a
// ClusterQueue, and asks for one gang of -gang Pods with 8 GPUs each in one rack. The objects are given to the cache
// directly, as Kueue's own tests do; there is no API server. Its first line on stdout is what Kueue answers. After that
// each line "check N" or "snapshot N" on stdin is answered with one line of N timings, so that the caller can take turns
// with what it compares.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/resources"
)

const (
	rackLabel    = "rack"
	poolLabel    = "pool"
	gpu          = corev1.ResourceName("nvidia.com/gpu")
	topologyName = kueue.TopologyReference("racks")
	flavorName   = kueue.ResourceFlavorReference("gpu-nodes")
	queueName    = "team-a"
)

// answer is what Kueue says of the gang. Reason is empty where it found a rack.
type answer struct {
	Fits   bool   `json:"fits"`
	Reason string `json:"reason"`
}

// timings are of one kind of run, in milliseconds: by the clock, and what this thread was on a core.
type timings struct {
	WallMilliseconds []float64 `json:"wall_ms"`
	CPUMilliseconds  []float64 `json:"cpu_ms"`
}

func main() {
	nodeCount := flag.Int("nodes", 5120, "nodes in the cluster")
	rackSize := flag.Int("rack-size", 16, "nodes in a rack")
	gangSize := flag.Int("gang", 17, "Pods of the gang")
	flag.Parse()
	if err := serve(*nodeCount, *rackSize, *gangSize); err != nil {
		log.Fatal(err)
	}
}

func serve(nodeCount, rackSize, gangSize int) error {
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	cache, err := newCache(ctx, nodeCount, rackSize)
	if err != nil {
		return err
	}
	snapshot, err := cache.Snapshot(ctx)
	if err != nil {
		return err
	}
	queue := snapshot.ClusterQueue(queueName)
	if queue == nil || queue.TASFlavors[flavorName] == nil {
		return errors.New("the snapshot has no active ClusterQueue with the topology: nothing would be measured")
	}
	gang := gangOf(gangSize)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ask(queue, gang)); err != nil {
		return err
	}
	runtime.LockOSThread() // so that the thread's CPU clock is ours
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var what string
		var count int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &what, &count); err != nil {
			return fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		var measured timings
		switch what {
		case "check":
			measured, err = timed(count, func() error { ask(queue, gang); return nil })
		case "snapshot":
			measured, err = timed(count, func() error { _, err := cache.Snapshot(ctx); return err })
		default:
			err = fmt.Errorf("%q is neither check nor snapshot", what)
		}
		if err != nil {
			return err
		}
		if err := out.Encode(measured); err != nil {
			return err
		}
	}
	return lines.Err()
}

// newCache has all nodes, free of Pods, below one flavor that one queue may use in full.
func newCache(ctx context.Context, nodeCount, rackSize int) (*schdcache.Cache, error) {
	scheme := kruntime.NewScheme()
	if err := kueue.AddToScheme(scheme); err != nil {
		return nil, err
	}
	client := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&kueue.LocalQueue{}, indexer.QueueClusterQueueKey, indexer.IndexQueueClusterQueue).
		WithIndex(&kueue.Workload{}, indexer.WorkloadClusterQueueKey, indexer.IndexWorkloadClusterQueue).
		Build()
	cache := schdcache.New(client)
	log := ctrl.LoggerFrom(ctx)
	cache.AddOrUpdateTopology(log, topology())
	cache.AddOrUpdateResourceFlavor(log, flavor())
	for index := range nodeCount {
		cache.TASCache().SyncNode(node(index, rackSize))
	}
	return cache, cache.AddClusterQueue(ctx, clusterQueue())
}

// topology has the two levels that the question needs and no more: each further one costs Kueue time.
func topology() *kueue.Topology {
	return &kueue.Topology{
		ObjectMeta: metav1.ObjectMeta{Name: string(topologyName)},
		Spec: kueue.TopologySpec{
			Levels: []kueue.TopologyLevel{{NodeLabel: rackLabel}, {NodeLabel: corev1.LabelHostname}},
		},
	}
}

func flavor() *kueue.ResourceFlavor {
	name := topologyName
	return &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: string(flavorName)},
		Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{poolLabel: "gpu"}, TopologyName: &name},
	}
}

// clusterQueue has quota for more than the cluster holds: what decides is the topology.
func clusterQueue() *kueue.ClusterQueue {
	quotas := kueue.FlavorQuotas{Name: flavorName}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, gpu} {
		quota := kueue.ResourceQuota{Name: name, NominalQuota: resource.MustParse("1E")}
		quotas.Resources = append(quotas.Resources, quota)
	}
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: queueName},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, gpu},
				Flavors:          []kueue.FlavorQuotas{quotas},
			}},
		},
	}
}

// node is the one of tests/bench/feasibility.py.
func node(index, rackSize int) *corev1.Node {
	name := fmt.Sprintf("n%d", index)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name,
				rackLabel:            fmt.Sprintf("r%d", index/rackSize),
				poolLabel:            "gpu",
			},
		},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("96"),
				corev1.ResourceMemory: resource.MustParse("1Ti"),
				corev1.ResourcePods:   resource.MustParse("110"),
				gpu:                   resource.MustParse("8"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// gangOf is what Kueue's flavor assigner hands to the check for a Job of one Pod set.
func gangOf(size int) schdcache.WorkloadTASRequests {
	rack := rackLabel
	container := corev1.Container{
		Name: "c",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("8"),
				corev1.ResourceMemory: resource.MustParse("16Gi"),
				gpu:                   resource.MustParse("8"),
			},
		},
	}
	pods := &kueue.PodSet{
		Name:            kueue.DefaultPodSetName,
		Count:           int32(size),
		Template:        corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		TopologyRequest: &kueue.PodSetTopologyRequest{Required: &rack},
	}
	return schdcache.WorkloadTASRequests{flavorName: {{
		PodSet:            pods,
		SinglePodRequests: resources.NewRequestsFromPodSpec(&pods.Template.Spec),
		Count:             pods.Count,
		Flavor:            flavorName,
	}}}
}

func ask(queue *schdcache.ClusterQueueSnapshot, gang schdcache.WorkloadTASRequests) answer {
	result := queue.FindTopologyAssignmentsForWorkload(gang)
	if failure := result.Failure(); failure != nil {
		return answer{Reason: failure.Reason}
	}
	return answer{Fits: result[kueue.DefaultPodSetName].TopologyAssignment != nil}
}

func timed(count int, run func() error) (timings, error) {
	var measured timings
	for range count {
		cpuBegin, err := threadTime()
		if err != nil {
			return measured, err
		}
		begin := time.Now()
		if err := run(); err != nil {
			return measured, err
		}
		wall := time.Since(begin)
		cpuEnd, err := threadTime()
		if err != nil {
			return measured, err
		}
		measured.WallMilliseconds = append(measured.WallMilliseconds, milliseconds(wall))
		measured.CPUMilliseconds = append(measured.CPUMilliseconds, milliseconds(cpuEnd-cpuBegin))
	}
	return measured, nil
}

// threadTime is how long this thread was on a core. Go's collector works on other threads: it is not counted.
func threadTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Nanoseconds()) / 1e6
}
