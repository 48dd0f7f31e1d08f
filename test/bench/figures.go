package main

import (
	"math"
	"slices"
	"time"
)

// measurement is what was measured of one run of one variant.
type measurement struct {
	Workload string `json:"workload"`
	Variant  string `json:"variant"`
	Round    int    `json:"round"` // from 1

	Records int64 `json:"records"`
	// RecordsPerSecond is the rate between the first and the last committed output,
	// without the records that the first commit held.
	RecordsPerSecond float64 `json:"records_per_second,omitempty"`
	// SteadyPerSecond is the same without the last twentieth of the output, and so
	// without the wait for the last, incomplete epoch.
	SteadyPerSecond float64 `json:"steady_records_per_second,omitempty"`
	// StartSeconds go from the start of the process to its first committed output.
	StartSeconds float64 `json:"start_seconds"`
	// CPUSeconds are user and system time: of the whole life of the process, or,
	// with feed, of the measured time.
	CPUSeconds       float64 `json:"cpu_seconds"`
	CPUPerMillion    float64 `json:"cpu_seconds_per_million"`
	BrokerPerMillion float64 `json:"broker_cpu_seconds_per_million"`
	PeakMiB          float64 `json:"peak_mib,omitempty"` // resident memory
	// Others is the share of the machine's CPU time that went to processes that
	// have nothing to do with the run.
	Others float64 `json:"others_cpu_share"`

	// StallShare is the share of time in which input waited while a lane neither
	// transformed nor produced; nil where it cannot be told.
	StallShare *float64 `json:"stall_share,omitempty"`
	Epochs     epochs   `json:"epochs,omitzero"`
	// Latency of feed goes from before a record is sent to its arrival at a
	// read_committed reader. Milliseconds.
	LatencyP50 float64 `json:"latency_p50_ms,omitempty"`
	LatencyP99 float64 `json:"latency_p99_ms,omitempty"`

	Verdict verdict `json:"verdict"`
}

// epochs are the commits of a run. Milliseconds.
type epochs struct {
	Committed int     `json:"committed"`
	Aborted   int     `json:"aborted"`
	Interval  float64 `json:"interval_p50_ms"` // from one to the next: reached, not asked for
	CommitP50 float64 `json:"commit_p50_ms"`   // from the end of input to the acknowledged commit
	CommitP99 float64 `json:"commit_p99_ms"`
	// The steps of a commit, medians; only the bridge tells them.
	Align   float64 `json:"align_p50_ms,omitempty"`   // until every lane is through
	Flush   float64 `json:"flush_p50_ms,omitempty"`   // until every record is acknowledged
	Offsets float64 `json:"offsets_p50_ms,omitempty"` // until the positions are, the wait for the epoch before included
	End     float64 `json:"end_p50_ms,omitempty"`     // until the commit is
	// Triggers counts what closed the epochs.
	Triggers map[string]int `json:"triggers,omitempty"`
}

// sample is the state of the output at one moment.
type sample struct {
	at   time.Duration // since the start of the child
	ends [partitions]int64
}

func (s sample) sum() (n int64) {
	for _, end := range s.ends {
		n += end
	}
	return n
}

// rates is what the samples of one run say. ends are the offsets behind the last
// record of each partition; transaction markers may follow them.
func rates(samples []sample, records int64, ends [partitions]int64) (first time.Duration, total, steady float64) {
	begin, finish, nearly := -1, -1, -1
	threshold := records - records/20
	for i, s := range samples {
		if begin < 0 && s.sum() > 0 {
			begin = i
		}
		if nearly < 0 && s.sum() >= threshold {
			nearly = i
		}
		if finish < 0 && reached(s.ends, ends) {
			finish = i
		}
	}
	if begin < 0 {
		return 0, 0, 0
	}
	first = samples[begin].at
	between := func(i int, n int64) float64 {
		if i <= begin {
			return 0 // all in one sample: too short to measure
		}
		return float64(n-samples[begin].sum()) / (samples[i].at - first).Seconds()
	}
	if finish >= 0 {
		total = between(finish, records)
	}
	if nearly >= 0 {
		steady = between(nearly, samples[nearly].sum())
	}
	return first, total, steady
}

// reached says whether every partition is at its end.
func reached(at, ends [partitions]int64) bool {
	for p := range at {
		if at[p] < ends[p] {
			return false
		}
	}
	return true
}

// spread is what is reported of repeated figures.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{Median: quantile(values, 0.5), Min: slices.Min(values), Max: slices.Max(values), Runs: len(values)}
}

// quantile interpolates between the two nearest values; 0 if there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// metric is one figure of a measurement.
type metric struct {
	name string
	of   func(measurement) (float64, bool) // false: not measured
	as   func(float64) string
}

// valuesOf are the figures of one workload and variant, in the order of the rounds.
func valuesOf(all []measurement, workload, variant string, m metric) (values []float64) {
	for _, one := range all {
		if v, ok := m.of(one); ok && one.Workload == workload && one.Variant == variant {
			values = append(values, v)
		}
	}
	return values
}

// ratios divides, round by round, what the one variant needed by what the other
// did: what disturbs a round disturbs both.
func ratios(all []measurement, workload, over, under string, m metric) (values []float64) {
	for _, a := range all {
		if a.Workload != workload || a.Variant != over {
			continue
		}
		for _, b := range all {
			if b.Workload != workload || b.Variant != under || b.Round != a.Round {
				continue
			}
			x, okX := m.of(a)
			y, okY := m.of(b)
			if okX && okY && y != 0 {
				values = append(values, x/y)
			}
		}
	}
	return values
}
