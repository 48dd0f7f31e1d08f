package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"time"

	"github.com/eosbridge/eosbridge/audit"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

func auditCommand() command {
	return command{
		name:    "audit",
		summary: "compare output and input: missing, duplicated, out of order, orphaned, altered",
		usage: `usage: eosbridge audit [--json] [--from WHERE] [--every] [--examples N] [--wait DURATION]

Compares what the output topics hold with what the input topics hold, up to the group's committed positions, as a
read_committed reader sees both. It takes the same configuration (environment) as the bridge, changes nothing, and
may run beside it. Pipelines that change nothing are compared by content; others need the headers that
BRIDGE_PROVENANCE=true adds. What cannot be decided is told with its reason, never as a pass.

The exit status is 0 if everything was verified, 1 on a finding, 2 if something cannot be told. Needed: Read and
Describe on the topics, Describe on the group, and DescribeConfigs on the topics to know which are compacted.

  --json            print the report as JSON, with a digest of its content
  --from WHERE      where the bridge began: earliest, a time (RFC 3339), or topic/partition=offset[,...]
  --every           every input record has at least one output: one without is missing
  --examples N      findings of each kind to show (10)
  --wait DURATION   how long to wait for transactions that are open on the output (60s)`,
		example: `KAFKA_BOOTSTRAP_SERVERS=localhost:9092 BRIDGE_INPUT_TOPICS=orders BRIDGE_OUTPUT_TOPIC=orders-clean \
BRIDGE_GROUP_ID=orders-bridge eosbridge audit --json > report.json`,
		run: runAudit,
	}
}

// auditFlags are the command's own settings.
type auditFlags struct {
	json, every bool
	from        audit.From
	examples    int
	wait        time.Duration
}

func parseAudit(args []string) (auditFlags, error) {
	var f auditFlags
	flags := newFlags("audit")
	flags.BoolVar(&f.json, "json", false, "")
	flags.BoolVar(&f.every, "every", false, "")
	flags.IntVar(&f.examples, "examples", 10, "")
	flags.DurationVar(&f.wait, "wait", time.Minute, "")
	from := flags.String("from", "", "")
	if err := parseFlags(flags, args); err != nil {
		return f, err
	}
	if f.examples < 0 || f.examples > 10_000 {
		return f, usageErrorf("--examples %d: use 0 to 10000", f.examples)
	}
	if f.wait < 0 {
		return f, usageErrorf("--wait %s: use 0 or more", f.wait)
	}
	var err error
	if f.from, err = audit.ParseFrom(*from); err != nil {
		return f, usageErrorf("--from: %w", err)
	}
	return f, nil
}

func runAudit(ctx context.Context, c *Context, args []string) error {
	flags, err := parseAudit(args)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	o, err := auditOptions(c, cfg, flags)
	if err != nil {
		return err
	}
	screen := newAuditScreen(c.Stderr, o.Progress)
	screen.start()
	report, err := audit.Run(ctx, o)
	screen.stop()
	if err != nil {
		var signal signalError
		if errors.As(err, &signal) {
			return fmt.Errorf("%w: the audit is incomplete, nothing follows from it", err)
		}
		return err
	}
	report.Version = c.build().Version
	if err := report.Seal(); err != nil {
		return err
	}
	if flags.json {
		err = printJSON(c.Stdout, report)
	} else {
		err = writeAudit(c.Stdout, report)
	}
	if err != nil {
		return err
	}
	switch report.Verdict {
	case audit.Faulty:
		return auditError{exitFailure}
	case audit.CannotTell:
		return auditError{exitUndecided}
	case audit.Pass:
	}
	return nil
}

// auditError is an audit that ran to its end without a pass; the report has said so.
type auditError struct{ code int }

func (e auditError) Error() string { return "the audit did not pass" }

func (e auditError) Quiet() bool { return true }

func (e auditError) ExitCode() int { return e.code }

// auditOptions turns the bridge's configuration into what the audit needs.
func auditOptions(c *Context, cfg *config.Config, flags auditFlags) (audit.Options, error) {
	refuse := func(err error) (audit.Options, error) { return audit.Options{}, &exitError{exitConfig, err} }
	log := newLogger(c.Stderr, cfg.Log)
	client, err := kafkaOptions(cfg, log)
	if err != nil {
		return refuse(err)
	}
	chain, err := transform.Parse(cfg.Bridge.Transform)
	if err != nil {
		return refuse(err)
	}
	start, err := offsets.ParseStart(cfg.Bridge.Start)
	if err != nil {
		return refuse(err)
	}
	b := cfg.Bridge
	o := audit.Options{
		Group: b.GroupID, Inputs: b.InputTopics.Names(), Output: b.OutputTopic, Routes: chain.Targets(), DLQ: b.DLQTopic,
		Identity: chain.Identity(), ByKey: b.Partitioning == config.PartitioningKey, Provenance: b.Provenance, Start: start,
		AtMostOnce: b.Delivery == config.DeliveryAtMostOnce,
		Every:      flags.every, From: flags.from, Examples: flags.examples, Patience: flags.wait,
		Client: client, Parallel: runtime.GOMAXPROCS(0), Progress: &audit.Progress{},
	}
	if p := b.InputTopics.Pattern(); p != "" {
		if o.Pattern, err = regexp.Compile(p); err != nil {
			return refuse(err)
		}
	}
	return o, nil
}
