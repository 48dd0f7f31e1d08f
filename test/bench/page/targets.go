package page

import (
	"fmt"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// cell is one figure held against what was aimed at, or against a competitor.
type cell struct {
	key                    string // by which its cause is found: "main W1 CPU bridge/session"
	what, target, measured string
	met                    bool
}

// Names of variants and workloads that targets speak of.
const (
	bridge  = "bridge"
	fast    = "bridge 5 ms"
	raw     = "raw"
	session = "session"
	plain   = "plain"
	seeded  = "seeded"
)

// store is the results with short ways to ask for them.
type store struct{ *figures.Store }

func (s store) runs(part string) figures.Set {
	p, _ := s.Part(part)
	return p.Runs
}

func (s store) ratio(part, workload, point, over, under, name string) figures.Spread {
	return figures.SpreadOf(s.runs(part).Ratios(workload, point, over, under, name))
}

func (s store) of(part, workload, point, variant, name string) figures.Spread {
	return s.runs(part).Of(workload, point, variant).Spread(name)
}

// times is the ratio that stands for a reduction by a factor.
func times(factor float64) float64 { return 1 / factor }

// targets are all that was aimed at. Those of parts that have not run are left out.
func (s store) targets() (cells []cell) {
	add := func(key, what string, v figures.Spread, c column, limit float64, atMost, whole bool) {
		if v.Runs == 0 {
			return
		}
		one := cell{key: key, what: what, measured: c.spread(v)}
		judged, word := v.Median, "at "
		if whole {
			word = "whole spread at "
		}
		if atMost {
			if whole {
				judged = v.Max
			}
			one.target, one.met = word+"most "+c.text(limit), judged <= limit
		} else {
			if whole {
				judged = v.Min
			}
			one.target, one.met = word+"least "+c.text(limit), judged >= limit
		}
		cells = append(cells, one)
	}
	most := func(key, what string, v figures.Spread, c column, limit float64) {
		add(key, what, v, c, limit, true, false)
	}
	cpu, rate := figures.CPU, figures.Rate
	for _, w := range []string{"W1", "W2"} {
		against := s.ratio("main", w, "", bridge, session, cpu)
		most("main "+w+" CPU bridge/session", w+": CPU per record, bridge / session", against, ratio, 0.9)
		add("main "+w+" CPU bridge/session spread", w+": the same, in every round", against, ratio, 1.05, true, true)
		add("main "+w+" rate bridge/session", w+": records/s, bridge / session", s.ratio("main", w, "", bridge, session, rate), ratio, 0.95, false, false)
		most("main "+w+" CPU bridge/plain", w+": CPU per record, bridge / plain", s.ratio("main", w, "", bridge, plain, cpu), ratio, 1.1)
	}
	most("main W1 CPU raw/bridge", "W1: CPU per record, pass-through / decoded", s.ratio("main", "W1", "", raw, bridge, cpu), ratio, times(2))
	most("lz4 CPU raw/bridge", "W2 with lz4: CPU per record, pass-through / decoded", s.ratio("lz4", "W2 lz4", "", raw, bridge, cpu), ratio, times(3))
	s.feedTargets(most)
	for _, w := range []string{"W1", "W2"} {
		loss := figures.SpreadOf(s.runs("memory").Across(w, "128 MiB", "256 MiB", bridge, cpu))
		most("memory "+w+" CPU 128/256", w+": CPU per record within 128 MiB / within 256 MiB", loss, ratio, 1.05)
	}
	most("scale peak 1,000 partitions", "peak MiB at 1,000 partitions", s.of("scale", "partitions", "1,000", bridge, figures.Peak), columns[figures.Peak], 512)
	s.lifeTargets(most)
	seen := s.ratio("seeded", "W2", "", seeded, bridge, cpu)
	add("seeded CPU", "a lane 10 % dearer on purpose: CPU per record, seeded / bridge", seen, ratio, 1.05, false, false)
	add("seeded CPU spread", "the same, in every round", seen, ratio, 1, false, true)
	return cells
}

// limit adds a target that is an upper bound of a median.
type limit func(key, what string, v figures.Spread, c column, limit float64)

func (s store) feedTargets(most limit) {
	p99, p50 := columns[figures.Latency99], columns[figures.Latency]
	of := s.of("feed", "feed", "", bridge, figures.Latency99)
	if than := s.of("feed", "feed", "", session, figures.Latency99); than.Runs > 0 {
		most("feed p99 bridge", "2,000 records/s, 100 ms epochs: latency p99 ms (session's and 3 ms)", of, p99, than.Median+3)
	}
	most("feed p50 5 ms", "2,000 records/s, 5 ms epochs: latency p50 ms", s.of("feed", "feed", "", fast, figures.Latency), p50, 8)
	most("feed p99 5 ms", "2,000 records/s, 5 ms epochs: latency p99 ms", s.of("feed", "feed", "", fast, figures.Latency99), p99, 20)
	for _, w := range []string{"feed", "feed +10 ms"} {
		most(w+" stall", w+": stall %, 100 ms epochs", s.of("feed", w, "", bridge, figures.Stall), columns[figures.Stall], 0.01)
	}
}

func (s store) lifeTargets(most limit) {
	most("life idle CPU", "idle, 8 partitions: % of a core", s.of("life", "idle", "", bridge, figures.Core), columns[figures.Core], 0.002)
	most("life idle memory", "idle, 8 partitions: resident MiB", s.of("life", "idle", "", bridge, figures.Resident), columns[figures.Resident], 40)
	most("life start", "start to the first commit, s", s.of("life", "start", "", bridge, figures.Start), columns[figures.Start], 0.25)
	kills := s.of("life", "kill", "", bridge, figures.Recovery)
	most("life kill median", fmt.Sprintf("kill -9 to the next commit, s, median of %d", kills.Runs), kills, columns[figures.Recovery], 0.2)
	if values := s.runs("life").Of("kill", "", bridge).Values(figures.Recovery); len(values) > 0 {
		p90 := figures.Quantile(values, 0.9)
		most("life kill p90", "the same, 90th percentile", figures.Spread{Median: p90, Min: p90, Max: p90, Runs: 1}, columns[figures.Recovery], 0.5)
	}
}

// versus is a figure of part peers that is compared with every peer.
type versus struct{ workload, name string }

var versusPeers = []versus{
	{"W1", figures.CPU},
	{"W1", figures.Rate},
	{"W1", figures.Peak},
	{"W2", figures.CPU},
	{"W2", figures.Rate},
	{"W2", figures.Peak},
	{"feed", figures.Latency},
	{"feed", figures.Latency99},
	{"feed", figures.Core},
	{"start", figures.Start},
	{"kill", figures.Recovery},
	{"idle", figures.Core},
	{"idle", figures.Resident},
}

// peers holds the bridge's medians against those of each competitor. Equal as shown is met.
func (s store) peers() (cells []cell) {
	runs := s.runs("peers")
	for _, v := range versusPeers {
		workload := v.workload
		if workload == "start" {
			workload = "W1" // whose runs tell it
		}
		c := columns[v.name]
		ours := runs.Of(workload, "", bridge).Spread(v.name)
		if ours.Runs == 0 {
			continue
		}
		for _, variant := range runs.Variants(workload) {
			theirs := runs.Of(workload, "", variant).Spread(v.name)
			if variant == bridge || theirs.Runs == 0 {
				continue
			}
			better := ours.Median < theirs.Median
			if !c.lower {
				better = ours.Median > theirs.Median
			}
			cells = append(cells, cell{
				key: "peers " + v.workload + " " + v.name + " " + variant, what: v.workload + ": " + c.head + ", against " + variant,
				target: c.spread(theirs), measured: c.spread(ours), met: better || c.text(ours.Median) == c.text(theirs.Median),
			})
		}
	}
	return cells
}
