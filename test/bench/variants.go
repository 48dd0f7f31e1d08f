package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/peers"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// The bridge's own variants.
const (
	nameBridge = "bridge"
	nameRaw    = "raw"
	nameFast   = "bridge 5 ms"
	nameSeeded = "seeded"
)

// fastInterval is the epoch interval for low latency.
const fastInterval = 5 * time.Millisecond

// passThrough is the switch of the raw pass-through.
const passThrough = "BRIDGE_PASS_THROUGH"

// bridgeVariant is the bridge as it is shipped, all settings at their defaults but for those that say what to do.
func bridgeVariant(name, binary, about string, more ...string) variant.Variant {
	return variant.Variant{
		Name: name, About: about, ExactlyOnce: true, Face: true,
		Command: func(w variant.Work) (variant.Command, error) {
			env := []string{
				"KAFKA_BOOTSTRAP_SERVERS=" + w.Bootstrap,
				"BRIDGE_INPUT_TOPICS=" + w.In,
				"BRIDGE_OUTPUT_TOPIC=" + w.Out,
				"BRIDGE_GROUP_ID=" + w.Group,
				"BRIDGE_INSTANCE_ID=" + w.Instance,
				"BRIDGE_COMPRESSION=" + w.Compression,
				"BRIDGE_EPOCH_INTERVAL=" + w.Interval.String(),
				"BRIDGE_HTTP_ADDR=" + w.HTTP,
				"LOG_LEVEL=info", "LOG_FORMAT=text",
			}
			if w.Memory > 0 {
				env = append(env, "BRIDGE_MEMORY_LIMIT="+strconv.FormatInt(w.Memory>>20, 10)+"MiB")
			}
			if w.Pprof != "" {
				env = append(env, "BRIDGE_PPROF_ADDR="+w.Pprof)
			}
			return variant.Command{Path: binary, Env: append(env, more...)}, nil
		},
	}
}

// catalogue is every variant that a part may ask for, by name.
type catalogue struct {
	all     map[string]variant.Variant
	missing map[string]string // why a known one is not there
}

// newCatalogue asks the bridge what it can do, and looks for the peers that are built.
func newCatalogue(o *options) *catalogue {
	c := &catalogue{all: map[string]variant.Variant{}, missing: map[string]string{}}
	decoded := []string{}
	if hasPassThrough(o.bridge) {
		decoded = append(decoded, passThrough+"=off")
		c.add(bridgeVariant(nameRaw, o.bridge, "the bridge that passes batches through without decoding them ("+passThrough+"=auto)", passThrough+"=auto"))
	} else {
		c.missing[nameRaw] = "this bridge has no " + passThrough
	}
	c.add(bridgeVariant(nameBridge, o.bridge, "the binary, exactly-once, every record decoded; defaults but for BRIDGE_COMPRESSION, which is that of the input", decoded...))
	fast := bridgeVariant(nameFast, o.bridge, "the same with BRIDGE_EPOCH_INTERVAL=5ms", decoded...)
	c.add(withInterval(fast, fastInterval))
	for _, v := range copies.Variants(o.self) {
		c.add(v)
	}
	for _, name := range peers.Names() {
		v, err := peers.Find(name, o.peers)
		if err != nil {
			c.missing[name] = err.Error()
			continue
		}
		c.add(v)
	}
	for name, v := range c.all {
		c.all[name] = withEnvironment(v, o.env[name])
	}
	return c
}

func (c *catalogue) add(v variant.Variant) { c.all[v.Name] = v }

// pick are the variants of these names that are there, and for those that are not, why.
func (c *catalogue) pick(names []string) (some []variant.Variant, left []string) {
	for _, name := range names {
		if v, ok := c.all[name]; ok {
			some = append(some, v)
			continue
		}
		why := c.missing[name]
		if why == "" {
			why = "there is none"
		}
		left = append(left, fmt.Sprintf("without %s: %s", name, why))
	}
	return some, left
}

func withInterval(v variant.Variant, interval time.Duration) variant.Variant {
	command := v.Command
	v.Command = func(w variant.Work) (variant.Command, error) {
		w.Interval = interval
		return command(w)
	}
	return v
}

func withEnvironment(v variant.Variant, more []string) variant.Variant {
	if len(more) == 0 {
		return v
	}
	command := v.Command
	v.Command = func(w variant.Work) (variant.Command, error) {
		c, err := command(w)
		c.Env = append(slices.Clone(c.Env), more...)
		return c, err
	}
	return v
}

// hasPassThrough asks the binary for its settings.
func hasPassThrough(binary string) bool {
	out, err := exec.Command(binary, "config", "docs").Output()
	return err == nil && strings.Contains(string(out), passThrough)
}
