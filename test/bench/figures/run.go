// Package figures holds what the benchmark has measured: runs, their repetition as medians and ranges, ratios of runs of
// the same round, and the file that keeps the runs of every part.
package figures

import "fmt"

// Names of values. Each is measured in one run; docs/performance.md tells how.
const (
	Rate       = "rate"        // records a second in the steady state
	Steady     = "steady"      // length of the steady state, seconds
	CPU        = "cpu"         // CPU seconds per million records in the steady state, user and system
	LifeCPU    = "life_cpu"    // the same from the start of the process to its end
	BrokerCPU  = "broker_cpu"  // the broker's CPU seconds per million records in the steady state
	Core       = "core"        // share of one core that the process takes
	BrokerCore = "broker_core" // share of one core that the broker takes
	Peak       = "peak"        // largest resident memory, MiB
	Resident   = "resident"    // resident memory at the end, MiB
	Start      = "start"       // from the start of the process to its first committed output, seconds
	Stall      = "stall"       // share of time in which input waited while a lane neither transformed nor produced
	Held       = "held"        // share of time in which a lane had nothing but outputs that wait for the epoch before
	Interval   = "interval"    // reached distance of commits, milliseconds
	Commit     = "commit"      // from the end of an epoch's input to its acknowledged commit, milliseconds, median
	Commit99   = "commit99"    // the same, 99th percentile
	Latency    = "latency"     // from before a record is sent to its arrival at a read_committed reader, milliseconds, median
	Latency99  = "latency99"   // the same, 99th percentile
	Recovery   = "recovery"    // from the start after a kill to the next committed output, seconds
	Life       = "life"        // how long a killed process had lived, seconds
	Passed     = "passed"      // share of the batches that went through without being decoded
	Others     = "others"      // share of the machine's CPU time that went to processes that have nothing to do with the run
)

// Run is one run of one variant.
type Run struct {
	Workload string             `json:"workload"`
	Point    string             `json:"point,omitempty"` // on the axis of a curve: "64 MiB"
	Variant  string             `json:"variant"`
	Round    int                `json:"round"` // from 1
	Records  int64              `json:"records"`
	Values   map[string]float64 `json:"values"` // by name
	Verdict  Verdict            `json:"verdict"`
	Aborted  int                `json:"aborted,omitempty"` // epochs
	Note     string             `json:"note,omitempty"`    // what was special about this run
}

// Set keeps a value; what is not above 0 was not measured, except where 0 is an answer.
func (r *Run) Set(name string, value float64) {
	if r.Values == nil {
		r.Values = map[string]float64{}
	}
	r.Values[name] = value
}

// Name says which run it is.
func (r *Run) Name() string {
	point := ""
	if r.Point != "" {
		point = ", " + r.Point
	}
	return fmt.Sprintf("%s%s: round %d: %s", r.Workload, point, r.Round, r.Variant)
}

// Verdict is what became of the records.
type Verdict struct {
	Read       int64 `json:"read"`
	Markers    int64 `json:"markers"` // of transactions: offsets that hold no record
	Duplicated int64 `json:"duplicated,omitempty"`
	Lost       int64 `json:"lost,omitempty"`
	OutOfOrder int64 `json:"out_of_order,omitempty"` // smaller number than the one before in its partition
	Altered    int64 `json:"altered,omitempty"`      // key, value, header or partition differ
	Ahead      int64 `json:"ahead,omitempty"`        // in the output, beyond the committed positions
}

// Exact says that every record arrived once, in order and unchanged, and that the positions agree.
func (v Verdict) Exact() bool {
	return v.Duplicated == 0 && v.Lost == 0 && v.OutOfOrder == 0 && v.Altered == 0 && v.Ahead == 0
}

func (v Verdict) String() string {
	if v.Exact() {
		return "exact"
	}
	return fmt.Sprintf("NOT EXACT: duplicated %d, lost %d, out of order %d, altered %d, ahead of the positions %d",
		v.Duplicated, v.Lost, v.OutOfOrder, v.Altered, v.Ahead)
}

// Only is the run without all other values.
func (r Run) Only(names ...string) Run {
	values := map[string]float64{}
	for _, name := range names {
		if v, ok := r.Values[name]; ok {
			values[name] = v
		}
	}
	r.Values = values
	return r
}
