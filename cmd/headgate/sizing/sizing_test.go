package sizing

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func load(change func(*Load)) Load {
	l := Load{Keys: 1e6, Rate: 100e3, KeyBytes: 20, Pipeline: 16, Algorithm: "token", Nodes: 3, Groups: 1, Cores: 8}
	change(&l)
	return l
}

func TestKeyBytes(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		want      float64
	}{{"token", 61}, {"sliding", 69}, {"log", 133}} { // the table of docs/memory.md; 128 bytes are rounded up to a size class
		assert.InDelta(t, c.want, KeyBytes(c.algorithm, 16), 1, c.algorithm)
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		name            string
		load            Load
		clusters, cores int
	}{
		{"a single server", load(func(l *Load) { l.Nodes = 1 }), 1, 2},
		{"one group", load(func(*Load) {}), 1, 2},
		{"one proposer is not enough", load(func(l *Load) { l.Keys, l.Rate, l.Cores = 10e6, 2e6, 64 }), 2, 6},
		{"more groups are", load(func(l *Load) { l.Keys, l.Rate, l.Groups = 10e6, 2e6, 12 }), 1, 6},
	} {
		e, err := Size(c.load)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.clusters, e.Clusters, c.name)
		assert.Equal(t, c.cores, e.Cores(), c.name)
		assert.LessOrEqual(t, e.Busiest*Headroom, float64(c.load.Cores), c.name)
		assert.LessOrEqual(t, e.Busiest, e.Cluster, c.name)
	}
}

// More of anything costs more, and less costs less.
func TestSizeGrows(t *testing.T) {
	less := Of(load(func(*Load) {}), 1)
	for name, change := range map[string]func(*Load){
		"rate":           func(l *Load) { l.Rate *= 2 },
		"calls alone":    func(l *Load) { l.Pipeline = 1 },
		"nodes":          func(l *Load) { l.Nodes = 5 },
		"groups":         func(l *Load) { l.Groups = 12 },
		"sync":           func(l *Load) { l.Sync = true },
		"keys and bytes": func(l *Load) { l.Keys, l.KeyBytes = 2e6, 40 },
	} {
		more := Of(load(change), 1)
		assert.Greater(t, more.Cluster, less.Cluster, name)
		assert.GreaterOrEqual(t, more.Disk, less.Disk, name)
	}
}

func TestSizeErrors(t *testing.T) {
	for _, c := range []struct {
		load Load
		want string
	}{
		{load(func(l *Load) { l.Algorithm = "gcra" }), `algorithm is "gcra": want one of token, leaky, fixed, sliding, log`},
		{load(func(l *Load) { l.Nodes = 4 }), "nodes is 4: want 3 or 5"},
		{load(func(l *Load) { l.Nodes, l.Sync = 1, true }), "a single node replicates nothing"},
		{load(func(l *Load) { l.Groups = 0 }), "groups is 0"},
		{load(func(l *Load) { l.Rate = 0 }), "want at least 1"},
		{load(func(l *Load) { l.Groups, l.Cores = 1024, 2 }), "no number of clusters is enough"},
	} {
		_, err := Size(c.load)
		assert.ErrorContains(t, err, c.want)
	}
}

// row is a load of bench/results/size, whose fields have the explanations.
type row struct {
	Check    bool
	Sync     bool
	Keys     float64
	Pipeline float64
	Rate     float64 `json:"per_second"`
	Busiest  float64 `json:"busiest_cpu_ns"`
	Cluster  float64 `json:"cluster_cpu_ns"`
	Idle     float64 `json:"idle_cpu_ns_per_second"`
	Nodes    float64
	Groups   float64
	Batches  float64 `json:"batches_per_second"`
	Log      float64 `json:"log_bytes_per_decision"`
	Resident float64 `json:"resident_bytes"`
	Between  float64 `json:"bytes_between_nodes_per_decision"`
}

// keysPerSecond returns the changed keys per second, in the batches of all groups.
func (r *row) keysPerSecond() float64 { return r.Rate * r.Log / (20 + effectHead) }

// TestCoefficients derives the coefficients again from the loads that were measured for
// them. They are rounded to two digits.
func TestCoefficients(t *testing.T) {
	text, err := os.ReadFile("../../../bench/results/size/results.json")
	require.NoError(t, err)
	var r struct{ Sizing []row }
	require.NoError(t, json.Unmarshal(text, &r))
	var single, many, hot, million, sync, twelve, twelveSync row
	for i, to := range []*row{&single, &many, &hot, &million, &sync, &twelve, &twelveSync} {
		require.False(t, r.Sizing[i].Check, "a load that checks predictions gives no coefficient")
		*to = r.Sizing[i]
	}
	const ns = 1e-9
	same := func(name string, want, got float64) {
		assert.InEpsilon(t, want, got, 0.06, "%s: %.3g, and the code has %.3g", name, want, got)
	}

	// One server: calls alone, and 64 together.
	one := func(r *row) float64 { return (r.Cluster - r.Idle/r.Rate) * ns }
	pipeline := (one(&single) - one(&many)) / (1/single.Pipeline - 1/many.Pipeline)
	call := one(&many) - pipeline/many.Pipeline
	same("perCall", call, perCall)
	same("perPipeline", pipeline, perPipeline)
	same("idleAlone", (single.Idle+many.Idle)/2*ns, idleAlone)
	idle := (hot.Idle + million.Idle + sync.Idle) / 3 / 3 * ns
	same("idleNode", idle, idleNode)
	same("idleGroup", (twelve.Idle/3*ns-idle)/11, idleGroup)

	// Clusters: what all nodes use beside their idle time and the decisions is for
	// batches and their keys.
	rest := func(r *row) float64 {
		return r.Cluster*r.Rate*ns - r.Idle*ns - r.Rate*(call+pipeline/r.Pipeline)
	}
	allKey, allBatch := two(&million, rest(&million), &twelve, rest(&twelve))
	same("leadBatch + 2 followBatch", allBatch, leadBatch+2*followBatch)
	same("leadKey + 2 followKey", allKey, leadKey+2*followKey)

	// A leader uses more than a follower, for each batch and each key.
	more := func(r *row) float64 {
		return (r.Busiest-(r.Cluster-r.Busiest)/2)*r.Rate*ns - r.Rate*(call+pipeline/r.Pipeline)
	}
	moreKey, moreBatch := two(&million, more(&million), &sync, more(&sync))
	same("leadBatch", (allBatch+2*moreBatch)/3, leadBatch)
	same("leadKey", (allKey+2*moreKey)/3, leadKey)

	pause := func(r *row) float64 { return r.Groups/r.Batches - r.Pipeline*min(r.Groups, r.Nodes)/r.Rate }
	same("asyncPause", (pause(&hot)+pause(&million)+pause(&twelve)/3)/3, asyncPause)
	same("syncPause", pause(&sync), syncPause)
	// While one group waits for the disk, calls of the others arrive.
	same("syncGroup", (twelveSync.Groups/twelveSync.Batches-pause(&sync))/11, syncGroup)

	// Then each group kept cachedLog entries.
	cached := twelve.Log * twelve.Rate / twelve.Batches * cachedLog * twelve.Groups
	same("processNode", hot.Resident, processNode)
	same("processGroup", (twelve.Resident-hot.Resident-cached)/11, processGroup)

	// Nearly all calls of a batch of the million keys change different keys.
	calls := million.Rate / million.Batches
	distinct := 1e6 * (1 - math.Pow(1-1e-6, calls))
	same("effectHead", million.Log*calls/distinct-20, effectHead)
	same("wireBatch", (hot.Between/2-hot.Log)*hot.Rate/hot.Batches, wireBatch) // to one follower
}

// two returns what a key and a batch cost, if two loads cost these values.
func two(r *row, costR float64, s *row, costS float64) (key, batch float64) {
	det := r.keysPerSecond()*s.Batches - s.keysPerSecond()*r.Batches
	return (costR*s.Batches - costS*r.Batches) / det, (r.keysPerSecond()*costS - s.keysPerSecond()*costR) / det
}
