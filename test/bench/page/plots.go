package page

import (
	"slices"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/plot"
)

// plots are the pictures of the parts that have run, by name.
func plots(results *figures.Store) map[string]string {
	s := store{results}
	all := map[string]string{}
	draw := func(name, part, title string, panels func(figures.Set) []plot.Panel) {
		if runs := s.runs(part); len(runs) > 0 {
			all[name] = plot.Figure{Title: title, Panels: panels(runs)}.SVG()
		}
	}
	full := []string{"W1", "W2"}
	draw("main", "main", "Full speed: 1 KB (W1) and 100 bytes (W2)", func(runs figures.Set) []plot.Panel {
		return []plot.Panel{
			bars(runs, "CPU seconds per million records", full, figures.CPU),
			bars(runs, "records/s", full, figures.Rate),
			bars(runs, "broker's CPU seconds per million records", full, figures.BrokerCPU),
			bars(runs, "peak memory, MiB", full, figures.Peak),
		}
	})
	draw("ratios", "main", "The bridge's CPU per record and rate over others', round by round: 1 KB (W1), 100 bytes (W2)", func(runs figures.Set) []plot.Panel {
		return []plot.Panel{ratioBars(runs, "CPU per record", figures.CPU), ratioBars(runs, "records/s", figures.Rate)}
	})
	draw("feed", "feed", "2,000 records/s of 200 bytes", func(runs figures.Set) []plot.Panel {
		loads := []string{"feed", "feed +10 ms"}
		return []plot.Panel{
			bars(runs, "latency p50, ms", loads, figures.Latency), bars(runs, "latency p99, ms", loads, figures.Latency99),
			bars(runs, "CPU, % of a core", loads, figures.Core), bars(runs, "broker's CPU, % of a core", loads, figures.BrokerCore),
		}
	})
	draw("kill", "life", "kill -9 to the next commit, sorted", func(runs figures.Set) []plot.Panel {
		p := plot.Panel{Title: "recovery, seconds", Kind: plot.Dots, Mark: slowRecovery, MarkText: "0.5 s"}
		for _, v := range runs.Variants("kill") {
			one := plot.Series{Name: v, Color: color(v)}
			for _, value := range runs.Of("kill", "", v).Values(figures.Recovery) {
				one.Values = append(one.Values, plot.Value{Mid: value, Min: value, Max: value, Is: true})
			}
			p.Series = append(p.Series, one)
		}
		return []plot.Panel{p}
	})
	draw("memory", "memory", "Within a memory limit", func(runs figures.Set) []plot.Panel {
		return []plot.Panel{
			curve(runs, "W1: CPU seconds per million records", "W1", figures.CPU), curve(runs, "W1: records/s", "W1", figures.Rate),
			curve(runs, "W2: CPU seconds per million records", "W2", figures.CPU), curve(runs, "W2: records/s", "W2", figures.Rate),
			curve(runs, "W1: peak memory, MiB", "W1", figures.Peak), curve(runs, "W2: peak memory, MiB", "W2", figures.Peak),
		}
	})
	draw("scale", "scale", "Scale, records of 100 bytes", func(runs figures.Set) []plot.Panel {
		return []plot.Panel{
			curve(runs, "CPU seconds per million records, by partitions", "partitions", figures.CPU), curve(runs, "peak memory, MiB, by partitions", "partitions", figures.Peak),
			curve(runs, "CPU seconds per million records, by instances", "instances", figures.CPU), curve(runs, "records/s, by instances", "instances", figures.Rate),
			curve(runs, "records/s, by added distance of the broker", "distance", figures.Rate), curve(runs, "lanes standing still, % of the time, by distance", "distance", figures.Stall),
		}
	})
	draw("commits", "scale", "Commit by output partitions, 2,000 records/s", func(runs figures.Set) []plot.Panel {
		w := "commit, 2,000 records/s"
		return []plot.Panel{curve(runs, "commit p50, ms, by output partitions", w, figures.Commit), curve(runs, "latency p99, ms, by output partitions", w, figures.Latency99)}
	})
	draw("peers", "peers", "Against other programs", func(runs figures.Set) []plot.Panel {
		return []plot.Panel{
			bars(runs, "CPU seconds per million records", full, figures.CPU), bars(runs, "records/s", full, figures.Rate),
			bars(runs, "peak memory, MiB", full, figures.Peak), bars(runs, "CPU at 2,000 records/s, % of a core", []string{"feed"}, figures.Core),
			bars(runs, "latency at 2,000 records/s, p99, ms", []string{"feed"}, figures.Latency99),
			bars(runs, "kill -9 to the next commit, median, s", []string{"kill"}, figures.Recovery),
		}
	})
	return all
}

// color is the same in all plots.
func color(variant string) int {
	order := []string{bridge, raw, session, plain, "streams", "flink", "rdkafka", fast}
	return max(0, slices.Index(order, variant))
}

// shownValue is a spread as the column of its figure shows it.
func shownValue(s figures.Spread, name string) plot.Value {
	k := columns[name].times
	return plot.Value{Mid: k * s.Median, Min: k * s.Min, Max: k * s.Max, Is: s.Runs > 0}
}

// bars has a group for each workload and a bar for each variant.
func bars(runs figures.Set, title string, workloads []string, name string) plot.Panel {
	p := plot.Panel{Title: title, Kind: plot.Bars, Labels: workloads}
	for _, v := range only(runs, workloads...).Variants("") {
		one := plot.Series{Name: v, Color: color(v)}
		for _, w := range workloads {
			one.Values = append(one.Values, shownValue(runs.Of(w, "", v).Spread(name), name))
		}
		p.Series = append(p.Series, one)
	}
	return p
}

// ratioBars are the bridge's ratios to session and plain.
func ratioBars(runs figures.Set, title, name string) plot.Panel {
	p := plot.Panel{Title: title, Kind: plot.Bars, Labels: []string{"W1", "W2"}, Mark: 1, MarkText: "equal"}
	for i, pair := range [][2]string{{bridge, session}, {bridge, plain}, {raw, session}} {
		one := plot.Series{Name: pair[0] + " / " + pair[1], Color: []int{2, 3, 1}[i]}
		for _, w := range p.Labels {
			s := figures.SpreadOf(runs.Ratios(w, "", pair[0], pair[1], name))
			one.Values = append(one.Values, plot.Value{Mid: s.Median, Min: s.Min, Max: s.Max, Is: s.Runs > 0})
		}
		p.Series = append(p.Series, one)
	}
	return p
}

// curve has a line for each variant over the points of a workload.
func curve(runs figures.Set, title, workload, name string) plot.Panel {
	p := plot.Panel{Title: title, Kind: plot.Lines, Labels: runs.Points(workload)}
	for _, v := range runs.Variants(workload) {
		one := plot.Series{Name: v, Color: color(v)}
		for _, point := range p.Labels {
			one.Values = append(one.Values, shownValue(runs.Of(workload, point, v).Spread(name), name))
		}
		p.Series = append(p.Series, one)
	}
	return p
}
