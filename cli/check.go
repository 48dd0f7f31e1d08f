package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eosbridge/eosbridge/check"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/topics"
	"github.com/eosbridge/eosbridge/transform"
)

func checkCommand() command {
	return command{
		name:    "check",
		summary: "look whether this configuration can work on the cluster, and what is missing",
		usage: `usage: eosbridge check [--json] [--quiet] [--timeout DURATION]

Takes the bridge's configuration (environment) to the cluster and prints one line per finding: PASS, WARN or FAIL, with
what was found, the bound, and the remedy as a command where there is one. Brokers, permissions, topics and their
settings, limits, the group and its positions, transactions under our prefix: docs/check.md lists all rules. It changes
nothing, may run beside the bridge, and needs no permission that the bridge does not need; what it may not look at is
said as "not checked", with the permission.

The exit status is 1 on a FAIL, also if the cluster cannot be reached, else 0.

  --json               print the findings as JSON
  --quiet              print what is a FAIL only, nothing if all is well (systemd's ExecStartPre, an init container)
  --timeout DURATION   time for all of it (30s); what has no answer then is told as not checked`,
		example: `KAFKA_BOOTSTRAP_SERVERS=localhost:9092 BRIDGE_INPUT_TOPICS=orders BRIDGE_OUTPUT_TOPIC=orders-clean \
BRIDGE_GROUP_ID=orders-bridge eosbridge check --quiet
STATUS  RULE          SUBJECT  VALUE           BOUND   REMEDY
FAIL    input.exists  orders   does not exist  exists  create it, or correct BRIDGE_INPUT_TOPICS`,
		run: runCheck,
	}
}

func runCheck(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("check")
	asJSON := flags.Bool("json", false, "")
	quiet := flags.Bool("quiet", false, "")
	timeout := flags.Duration("timeout", 30*time.Second, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *timeout < time.Second {
		return usageErrorf("--timeout %s: use 1s or more", *timeout)
	}
	o, err := checkOptions(c)
	if err != nil {
		return err
	}
	o.Timeout = *timeout
	report, err := check.Run(ctx, o)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: the check is incomplete, nothing follows from it", context.Cause(ctx))
	}
	report.Version = c.build().Version
	switch {
	case *asJSON:
		err = printJSON(c.Stdout, report)
	default:
		err = writeCheck(c.Stdout, report, *quiet)
	}
	if err != nil {
		return err
	}
	if report.Verdict == check.Fail {
		return checkError{}
	}
	return nil
}

// checkError is a check that found a FAIL; the report has said so.
type checkError struct{}

func (checkError) Error() string { return "the check failed" }

func (checkError) Quiet() bool { return true }

// checkOptions turns the configuration into what the check needs, with its problems, if it has some.
func checkOptions(c *Context) (check.Options, error) {
	var o check.Options
	cfg, err := loadConfig(c)
	var problems *config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems.List {
			o.Problems = append(o.Problems, check.Problem{Variable: p.Variable, Message: p.Message})
		}
		// A broken law between timeouts does not hide the cluster; without names there is nothing to look at.
		o.Unusable = !problems.Spare("KAFKA_", "AWS_", "BRIDGE_INPUT_TOPICS", "BRIDGE_OUTPUT_TOPIC", "BRIDGE_PARTITIONING", "BRIDGE_TRANSFORM",
			"BRIDGE_START", "BRIDGE_DELIVERY", "BRIDGE_DLQ_TOPIC", "BRIDGE_GROUP_ID", "BRIDGE_INSTANCE_ID", "BRIDGE_TXN_PREFIX", "BRIDGE_GROUP_PROTOCOL")
		cfg, err = problems.Read, nil
	}
	if err != nil || o.Unusable {
		return o, err
	}
	log := slog.New(slog.DiscardHandler) // the findings say it better than the client's log
	if cfg.Log.Level == "debug" {
		log = newLogger(c.Stderr, cfg.Log)
	}
	if o.Client, err = kafkaOptions(cfg, log); err != nil {
		return o, &exitError{exitConfig, err}
	}
	chain, err := transform.Parse(cfg.Bridge.Transform)
	if err != nil {
		return o, &exitError{exitConfig, err}
	}
	if o.Start, err = offsets.ParseStart(cfg.Bridge.Start); err != nil {
		return o, &exitError{exitConfig, err}
	}
	b := &cfg.Bridge
	o.Plan = topics.Plan{Names: b.InputTopics.Names(), Output: b.OutputTopic, Targets: chain.Targets(), Letters: b.DLQTopic, ByKey: b.Partitioning == config.PartitioningKey}
	if p := b.InputTopics.Pattern(); p != "" {
		if o.Plan.Pattern, err = regexp.Compile(p); err != nil {
			return o, &exitError{exitConfig, err}
		}
	}
	o.Identity = chain.Identity()
	o.Group, o.Instance, o.Prefix = b.GroupID, b.InstanceID, b.TxnPrefix
	o.Consumer, o.Transactional = b.GroupProtocol == config.GroupProtocolConsumer, b.Delivery == config.DeliveryExactlyOnce
	o.EpochTimeout, o.TxnTimeout, o.SessionTimeout = b.EpochTimeout, b.TxnTimeout, b.SessionTimeout
	k := &cfg.Kafka
	o.Bootstrap, o.Principal, o.Secured = k.BootstrapServers, principal(k), k.UsesTLS() || k.UsesSASL()
	o.Exposed = exposed(k)
	return o, nil
}

// exposed are the protections that the configuration gives up.
func exposed(k *config.Kafka) []check.Problem {
	var list []check.Problem
	if k.UsesTLS() && k.TLSInsecureSkipVerify {
		list = append(list, check.Problem{Variable: "KAFKA_TLS_INSECURE_SKIP_VERIFY", Message: "true: any certificate is accepted"})
	}
	if k.UsesSASL() && !k.UsesTLS() && k.SASLAllowPlaintext {
		list = append(list, check.Problem{Variable: "KAFKA_SASL_ALLOW_PLAINTEXT", Message: "true: credentials may be sent without encryption"})
	}
	return list
}

// principal is who we are to Kafka's authorizer with its default rules; empty where only the broker can know.
func principal(k *config.Kafka) string {
	switch {
	case k.UsesSASL():
		if k.SASLUsername != "" && k.SASLMechanism != config.MechanismOAuthBearer && k.SASLMechanism != config.MechanismMSKIAM {
			return "User:" + k.SASLUsername
		}
		return ""
	case k.UsesTLS() && k.TLSCertFile != "":
		files, err := newTLSFiles(k).load()
		if err != nil || files.Certificates[0].Leaf == nil {
			return ""
		}
		return "User:" + files.Certificates[0].Leaf.Subject.String()
	}
	return "User:ANONYMOUS"
}

// writeCheck prints the findings, one line for each; of quiet ones only what is a FAIL.
func writeCheck(out io.Writer, r *check.Report, quiet bool) error {
	if quiet && r.Verdict != check.Fail {
		return nil
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STATUS\tRULE\tSUBJECT\tVALUE\tBOUND\tREMEDY")
	for _, f := range r.Findings {
		if !quiet || f.Status == check.Fail {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Status, f.Rule, f.Subject, f.Value, f.Bound, f.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) { // the last column is empty of most
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	_, err := fmt.Fprintf(out, "\n%s: %d FAIL, %d WARN, %d PASS\n", r.Verdict, r.Fail, r.Warn, r.Pass)
	return err
}
