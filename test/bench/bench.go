package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// bench starts the broker, measures and reports.
func bench(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "starting Apache Kafka %s\n", kafka.V44)
	cluster, err := kafka.Run(ctx, kafkaOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	r, err := newRig(o, cluster, stderr)
	if err != nil {
		return err
	}
	defer r.close()
	all, err := r.all(ctx)
	if err != nil {
		return err
	}
	rep := newReport(o, all)
	if o.into != "" {
		err = rep.into(o.into)
	}
	return errors.Join(err, rep.print(o, stdout), rep.inexact())
}

// print writes the report in the form that was asked for.
func (rep *report) print(o *options, stdout io.Writer) error {
	switch {
	case o.json:
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rep)
	case o.markdown:
		return rep.write(stdout, asMarkdown)
	default:
		return rep.write(stdout, asText)
	}
}

// all runs every workload.
func (r *rig) all(ctx context.Context) (all []measurement, err error) {
	for i, name := range r.options.workloads {
		var some []measurement
		if w := workloads[name]; w.records == 0 {
			some, err = r.feeds(ctx)
		} else {
			some, err = r.copies(ctx, name, w, i == 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// copies loads a topic once and lets every variant copy it once in each round.
func (r *rig) copies(ctx context.Context, name string, w workload, warmUp bool) ([]measurement, error) {
	if r.options.records > 0 {
		w.records = r.options.records
	}
	w.records -= w.records % partitions
	if w.records == 0 {
		return nil, fmt.Errorf("-records must be at least %d", partitions)
	}
	if warmUp {
		if err := r.warm(ctx, w); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	in, err := r.topic(ctx, "in-"+name)
	if err != nil {
		return nil, err
	}
	defer r.drop(in)
	r.say("%s: loading %d records of %d bytes", name, w.records, w.size)
	if err := load(ctx, r.cluster.Bootstrap(), in, w.records, w.size); err != nil {
		return nil, err
	}
	var all []measurement
	for round := range r.options.rounds {
		for _, variant := range turn(r.options.variants, round) {
			m, err := r.throughput(ctx, name, w, in, variant, round+1)
			if err != nil {
				return nil, fmt.Errorf("round %d: %s: %w", round+1, variant, err)
			}
			r.say("%s", m.line())
			all = append(all, m)
		}
	}
	return all, nil
}

// warm lets the broker's compiler see the work before it counts.
func (r *rig) warm(ctx context.Context, w workload) error {
	w.records = r.options.warmUp - r.options.warmUp%partitions
	if w.records == 0 {
		return nil
	}
	in, err := r.topic(ctx, "in-warm-up")
	if err != nil {
		return err
	}
	defer r.drop(in)
	r.say("warm-up of the broker: %d records through each variant", w.records)
	if err := load(ctx, r.cluster.Bootstrap(), in, w.records, w.size); err != nil {
		return err
	}
	profiles := r.options.profiles
	r.options.profiles = ""
	defer func() { r.options.profiles = profiles }()
	for _, variant := range r.options.variants {
		if _, err := r.throughput(ctx, "warm-up", w, in, variant, 0); err != nil {
			return fmt.Errorf("%s: %w", variant, err)
		}
	}
	return nil
}

// feeds runs the steady load, close to the broker and far from it.
func (r *rig) feeds(ctx context.Context) ([]measurement, error) {
	var all []measurement
	for round := range r.options.rounds {
		for _, variant := range turn(r.options.variants, round) {
			name := feedName
			m, err := r.steady(ctx, name, 0, variant, round+1)
			if err == nil {
				r.say("%s", m.line())
				all = append(all, m)
				if r.options.delay == 0 || variant == variantPlain { // which commits nothing to wait for
					continue
				}
				name = farName(r.options.delay)
				m, err = r.steady(ctx, name, r.options.delay, variant, round+1)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: round %d: %s: %w", name, round+1, variant, err)
			}
			r.say("%s", m.line())
			all = append(all, m)
		}
	}
	return all, nil
}

// turn rotates the order of the variants from round to round, so that none is
// always the one after another.
func turn(variants []string, round int) []string {
	k := round % len(variants)
	return append(append([]string(nil), variants[k:]...), variants[:k]...)
}
