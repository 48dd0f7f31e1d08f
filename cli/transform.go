package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/transform"
)

func transformCommand() command {
	sub := []command{transformListCommand(), transformTestCommand(), transformRunCommand(), transformBenchCommand()}
	var names []string
	for _, cmd := range sub {
		names = append(names, cmd.name)
	}
	return command{
		name:    "transform",
		summary: "list the transforms; run, test and measure a chain without Kafka",
		usage: `usage: eosbridge transform list [--json] [NAME ...]
       eosbridge transform test [--chain CHAIN] [--json] FILE ...
       eosbridge transform run [--chain CHAIN] [--keep-going] < records
       eosbridge transform bench [--chain CHAIN] [--for DURATION] [--json] [FILE]

  list    what BRIDGE_TRANSFORM may hold: each transform with its argument, what it does, and an example
  test    try a chain on cases written down in YAML: records, and what shall become of them
  run     pass records of the standard input through a chain
  bench   measure what a chain costs per record

The chain is that of BRIDGE_TRANSFORM unless --chain gives another. One that asks a schema
registry asks that of SCHEMA_REGISTRY_URL. Each has its own help:
eosbridge transform test --help`,
		example: "eosbridge transform list\n" +
			"BRIDGE_TRANSFORM='drop_tombstones | route(orders-eu)' eosbridge transform run < records.jsonl",
		sub: sub,
		run: func(_ context.Context, _ *Context, args []string) error {
			if len(args) == 0 {
				return usageErrorf("a subcommand is missing: use eosbridge transform %s", strings.Join(names, ", "))
			}
			if near := config.Nearest(args[0], names); near != "" {
				return usageErrorf("unknown subcommand %q: did you mean %q? See eosbridge transform --help", args[0], near)
			}
			return usageErrorf("unknown subcommand %q: use eosbridge transform %s", args[0], strings.Join(names, ", "))
		},
	}
}

// chainOf parses the chain of a flag or else of BRIDGE_TRANSFORM; both left out, records pass unchanged.
func chainOf(ctx context.Context, c *Context, flag string) (*transform.Spec, error) {
	expr := cmp.Or(flag, c.Environ["BRIDGE_TRANSFORM"])
	spec, err := transform.Parse(expr)
	if err != nil {
		return nil, &exitError{exitConfig, fmt.Errorf("the chain %q: %w (see 'eosbridge transform list')", expr, err)}
	}
	switch source, target := spec.Registries(); {
	case target:
		return nil, &exitError{exitConfig, fmt.Errorf("the chain %q has a schema_map_id, which registers schemas in the target registry, and to try a chain changes nothing: leave it out", expr)}
	case source:
		return asking(ctx, c, expr, spec)
	}
	return spec, nil
}

// asking parses a chain anew that asks the schema registry of the environment. Of the rest of the configuration nothing is
// needed, so nothing else has to be right.
func asking(ctx context.Context, c *Context, expr string, spec *transform.Spec) (*transform.Spec, error) {
	cfg, err := config.Load(c.Environ, c.Hostname)
	if problems, wrong := errors.AsType[*config.Problems](err); wrong {
		const timeout = "BRIDGE_EPOCH_TIMEOUT" // bounds how long a registry is waited for
		if !problems.Spare("SCHEMA_REGISTRY_", timeout) {
			ours := slices.DeleteFunc(slices.Clone(problems.List), func(p config.Problem) bool {
				return p.Variable != timeout && !strings.HasPrefix(p.Variable, "SCHEMA_REGISTRY_")
			})
			return nil, &config.Problems{List: ours}
		}
		cfg = problems.Read
	}
	if problems := checkSchemas(cfg, spec); len(problems) > 0 {
		return nil, &config.Problems{List: problems}
	}
	outside, err := schemaRegistries(cfg, newLogger(c.Stderr, cfg.Log))
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	if spec, err = transform.ParseWith(expr, outside); err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return spec, resolveSchemas(ctx, spec)
}
