package page

import (
	"fmt"
	"strings"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// Figures of a run at full speed, and of one under a steady load.
var (
	copied = []string{
		figures.Rate, figures.CPU, figures.BrokerCPU, figures.Peak, figures.Interval, figures.Commit, figures.Commit99, figures.Stall,
		figures.Held, figures.Passed, figures.Start, figures.LifeCPU, figures.Steady, figures.Others,
	}
	fed = []string{
		figures.Latency, figures.Latency99, figures.Core, figures.BrokerCore, figures.Interval, figures.Commit, figures.Commit99,
		figures.Stall, figures.Held, figures.Peak, figures.Others,
	}
	rested = []string{figures.Core, figures.Resident, figures.Others}
)

// sections in the order of the page.
var sections = []section{
	{
		"main", "Full speed",
		"W1: records of 1,024 bytes, W2: of 100 bytes, 8 partitions, no compression, commits every 100 ms.",
		[]string{"main", "ratios"},
		func(runs figures.Set) []table {
			pairs := [][2]string{{bridge, session}, {bridge, plain}, {session, plain}, {raw, bridge}, {raw, session}}
			return []table{figuresOf(runs, copied...), ratiosOf(runs, pairs, figures.CPU, figures.Rate, figures.BrokerCPU, figures.Peak)}
		},
	},
	{
		"lz4", "Compressed batches, passed through or decoded",
		"Records of 100 bytes in batches compressed with lz4, output compressed with lz4.",
		nil,
		func(runs figures.Set) []table {
			return []table{figuresOf(runs, copied...), ratiosOf(runs, [][2]string{{raw, bridge}, {raw, session}, {bridge, session}}, figures.CPU, figures.Rate)}
		},
	},
	{
		"feed", "Steady load",
		"2,000 records a second of 200 bytes, each sent at once; *+10 ms*: every answer of the broker comes that much later.",
		[]string{"feed"},
		func(runs figures.Set) []table {
			pairs := [][2]string{{bridge, session}, {fast, bridge}, {fast, plain}}
			return []table{figuresOf(runs, fed...), ratiosOf(runs, pairs, figures.Latency, figures.Latency99, figures.Core, figures.BrokerCore)}
		},
	},
	{
		"life", "Start, kill -9, idling",
		"*start*: exec to the first committed output, with input waiting. *kill*: 5,000 records a second; killed at a random moment " +
			"0.15 to 2 s after its first output, started again 100 ms later; exec to the next committed output. *idle*: after a few records, no more.",
		[]string{"kill"},
		func(runs figures.Set) []table {
			return []table{
				figuresOf(only(runs, "start"), figures.Start, figures.Others), killed(only(runs, "kill")), slowKills(only(runs, "kill")),
				figuresOf(only(runs, "idle"), rested...),
			}
		},
	},
	{
		"memory", "Within a memory limit",
		"`BRIDGE_MEMORY_LIMIT`; session and plain get buffers of that size (an eighth of the limit, a fetch of a 64th per partition) and the " +
			"bridge's settings of Go's collector (GOGC=400, GOMEMLIMIT of 15/32 of the limit), so that none wins by those.",
		[]string{"memory"},
		func(runs figures.Set) []table {
			return []table{
				figuresOf(runs, figures.Rate, figures.CPU, figures.Peak, figures.BrokerCPU, figures.Stall, figures.Interval, figures.Others),
				ratiosOf(runs, [][2]string{{bridge, session}, {bridge, plain}}, figures.CPU, figures.Rate, figures.Peak),
			}
		},
	},
	{
		"scale", "Scale",
		"Records of 100 bytes at full speed but where said otherwise; *instances* and *distance* with 10 partitions. CPU is that of all instances, memory of the largest.",
		[]string{"scale", "commits"},
		func(runs figures.Set) []table {
			full := figures.Set{}
			paced := figures.Set{}
			for _, r := range runs {
				if _, ok := r.Values[figures.Rate]; ok {
					full = append(full, r)
				} else {
					paced = append(paced, r)
				}
			}
			return []table{
				figuresOf(full, figures.Rate, figures.CPU, figures.BrokerCPU, figures.Peak, figures.Interval, figures.Commit, figures.Stall, figures.Held, figures.Others),
				figuresOf(paced, figures.Commit, figures.Commit99, figures.Latency, figures.Latency99, figures.Core, figures.BrokerCore, figures.Peak),
			}
		},
	},
	{
		"seeded", "Does the benchmark see a tenth?",
		"The same binary, built with a lane that burns a tenth of the bridge's CPU time per record on purpose.",
		nil,
		func(runs figures.Set) []table {
			return []table{
				figuresOf(runs, figures.Rate, figures.CPU, figures.LifeCPU, figures.Others),
				ratiosOf(runs, [][2]string{{seeded, bridge}}, figures.CPU, figures.LifeCPU, figures.Rate),
			}
		},
	},
	{
		"peers", "Against other programs",
		"The same work by programs that others would use, each tuned as a careful user would. The steady state of a Java program begins 6 s after its first output.",
		[]string{"peers"},
		func(runs figures.Set) []table {
			return []table{
				figuresOf(only(runs, "W1", "W2"), figures.Rate, figures.CPU, figures.LifeCPU, figures.BrokerCPU, figures.Peak, figures.Start, figures.Others),
				figuresOf(only(runs, "feed"), fed...),
				killed(only(runs, "kill")),
				figuresOf(only(runs, "idle"), rested...),
			}
		},
	},
}

// only are the runs of some workloads.
func only(runs figures.Set, workloads ...string) (some figures.Set) {
	for _, w := range workloads {
		for _, r := range runs {
			if r.Workload == w {
				some = append(some, r)
			}
		}
	}
	return some
}

// killed sums up kills: there, the tail is what counts.
func killed(runs figures.Set) table {
	t := table{{"workload", "variant", "kills", "recovery s: median", "90 %", "worst", "over 0.5 s", "records"}}
	c := columns[figures.Recovery]
	for _, v := range runs.Variants("kill") {
		some := runs.Of("kill", "", v)
		values := some.Values(figures.Recovery)
		slow := 0
		for _, s := range values {
			if s > slowRecovery {
				slow++
			}
		}
		s := figures.SpreadOf(values)
		t = append(t, []string{
			"kill", v, fmt.Sprint(s.Runs), c.text(s.Median), c.text(figures.Quantile(values, 0.9)), c.text(s.Max), fmt.Sprint(slow), verdictOf(some),
		})
	}
	return t
}

// slowRecovery is a recovery that has to be explained, in seconds.
const slowRecovery = 0.5

// slowKills are the recoveries that have to be explained, with what the log says the start waited for.
func slowKills(runs figures.Set) table {
	t := table{{"variant", "kill", "had lived s", "recovery s", "longest silence in its log"}}
	for _, r := range runs {
		if v := r.Values[figures.Recovery]; v > slowRecovery {
			t = append(t, []string{
				r.Variant, fmt.Sprint(r.Round), number(r.Values[figures.Life], 2), number(v, 2), strings.ReplaceAll(r.Note, "|", `\|`),
			})
		}
	}
	return t
}
