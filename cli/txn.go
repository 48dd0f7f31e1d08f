package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/topics"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

const txnUsage = `usage: eosbridge txn list [--all] [--json]
       eosbridge txn describe [--json] NAME
       eosbridge txn abort [--yes] [--force] [--json] NAME

Shows whose transactions are open, what they keep from read_committed readers, and whether aborting them is safe; and
aborts one. It takes the same configuration (environment) as the bridge. NAME is a transactional id as it is spelt, or
topic/partition@offset, by which list names a transaction that no transactional id is known for.

  list      the ids of BRIDGE_TXN_PREFIX, and all that is open in the input and output topics and __consumer_offsets
  describe  all about one of them, and what will end it
  abort     end it, after a question on the terminal

  --all             list: the open transactions of the whole cluster, and hanging ones in every topic
  --yes             abort: do not ask
  --force           abort: even if it is not safe
  --prefix PREFIX   the prefix of the ids, in place of BRIDGE_TXN_PREFIX
  --group GROUP     the group of their owners, in place of BRIDGE_GROUP_ID
  --json            for programs

live: a member of the group has its instance id. dead: no member has, and it is older than 2 x BRIDGE_EPOCH_TIMEOUT.
foreign: of another prefix. hanging: open in a partition, and no coordinator knows of it. unknown: what would decide is
not visible, or it is too young. docs/transactions.md says more.

The exit status is 0, for abort only once nothing of it is open; 1 if there is no such transaction, or if abort
refuses; 77 if access is denied. Needed: Describe on the transactional ids and the group, Read on the topics; for abort
Write on the transactional id, for a hanging one ClusterAction on the cluster.`

const txnExample = `$ eosbridge txn list
orders-bridge.pod-0.1  live  Ongoing for 0.1s of 40s
    producer 4000 epoch 5120; owner pod-0, client eosbridge-pod-0 at /10.0.3.7
    holds back 2 offsets: orders-clean/0 from 88120 (2)
    safe to abort: no: pod-0 is in the group orders-bridge, as a crashed one is until its session timeout
orders-bridge.pod-1.0  dead  Ongoing for 31.0s of 40s
    producer 4001 epoch 17; owner pod-1, not in the group
    holds back 1,204 offsets: orders-clean/1 from 400 (1,204)
    safe to abort: yes: nobody in the group orders-bridge is called pod-1, ...
$ eosbridge txn abort orders-bridge.pod-1.0`

func txnCommand() command {
	command := command{
		name: "txn", summary: "list, describe and abort transactions: whose they are, what they hold back",
		usage: txnUsage, example: txnExample,
		run: func(context.Context, *Context, []string) error {
			return usageErrorf("a subcommand is missing or unknown: use eosbridge txn list, describe or abort; see eosbridge txn --help")
		},
	}
	for _, name := range []string{"list", "describe", "abort"} {
		sub := command
		sub.name, sub.sub = name, nil
		sub.run = func(ctx context.Context, c *Context, args []string) error { return runTxn(ctx, c, name, args) }
		command.sub = append(command.sub, sub)
	}
	return command
}

// txnFlags are the command's own settings.
type txnFlags struct {
	verb, name            string
	all, yes, force, json bool
	prefix, group         string
}

func parseTxn(verb string, args []string) (txnFlags, error) {
	f := txnFlags{verb: verb}
	flags := newFlags("txn " + verb)
	flags.BoolVar(&f.json, "json", false, "")
	flags.StringVar(&f.prefix, "prefix", "", "")
	flags.StringVar(&f.group, "group", "", "")
	switch verb {
	case "list":
		flags.BoolVar(&f.all, "all", false, "")
		return f, parseFlags(flags, args)
	case "abort":
		flags.BoolVar(&f.yes, "yes", false, "")
		flags.BoolVar(&f.force, "force", false, "")
	}
	names, err := parseFlagsAndNames(flags, args)
	if err == nil && len(names) != 1 {
		err = usageErrorf("name one transaction, as 'eosbridge txn list' shows it; see eosbridge txn --help")
	}
	if err != nil {
		return f, err
	}
	f.name = names[0]
	return f, nil
}

func runTxn(ctx context.Context, c *Context, verb string, args []string) error {
	f, err := parseTxn(verb, args)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	o, err := inspectOptions(cfg, f)
	if err != nil {
		return err
	}
	log := newLogger(c.Stderr, cfg.Log)
	options, err := kafkaOptions(cfg, log)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(options...)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	seen, err := txn.Inspect(ctx, adm, cl, o)
	if err != nil {
		return txnFailure(err)
	}
	if f.verb != "list" && len(seen.Transactions) == 0 {
		writeUnseen(c.Stderr, seen)
		return fmt.Errorf("no transaction %q: see 'eosbridge txn list --all' for what there is", f.name)
	}
	switch {
	case f.verb == "abort":
		return abortTxn(ctx, c, adm, cl, o, seen, f)
	case f.json:
		return printJSON(c.Stdout, seen)
	case f.verb == "describe":
		return writeTransaction(c.Stdout, seen, o)
	default:
		return writeTransactions(c.Stdout, seen)
	}
}

// txnFailure gives the failure of a whole look its exit status.
func txnFailure(err error) error {
	switch a := txn.AdmissionOf(err); {
	case a != txn.Admitted:
		return &exitError{a.Status(), fmt.Errorf("%w: %s", err, a.Remedy())}
	case txn.Denied(err):
		return &exitError{exitDenied, err}
	case txn.Unreachable(err), errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitUnavailable, err}
	}
	return err
}

// abortTxn shows the transaction, asks, and aborts it.
func abortTxn(ctx context.Context, c *Context, adm *kadm.Client, cl *kgo.Client, o txn.InspectOptions, seen *txn.Inspection, f txnFlags) error {
	t := seen.Transactions[0]
	if err := writeTransaction(c.Stderr, seen, o); err != nil {
		return err
	}
	if t.Open() && (t.Safe || f.force) && !f.yes {
		if err := confirmAbort(c, t); err != nil {
			return err
		}
	}
	done, err := txn.Abort(ctx, adm, cl, o, t, f.force)
	switch {
	case errors.Is(err, txn.ErrUnsafe):
		return fmt.Errorf("%w (--force aborts what has an owner all the same)", err)
	case err != nil:
		return txnFailure(err)
	case f.json:
		return printJSON(c.Stdout, done)
	}
	return writeAborted(c.Stdout, done)
}

// confirmAbort asks on the terminal.
func confirmAbort(c *Context, t txn.Transaction) error {
	stdin, ok := c.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(stdin.Fd())) {
		return usageErrorf("abort asks before it acts, and there is no terminal: add --yes")
	}
	if !t.Safe {
		fmt.Fprintln(c.Stderr, "This is NOT safe. A live owner is fenced: its open transaction is lost to it. A bridge repeats the epoch; what others do is for them.")
	}
	fmt.Fprintf(c.Stderr, "Abort %s? Type yes: ", t.Name)
	answer, err := bufio.NewReader(stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.Join(errors.New("not aborted: the answer was not yes"), err)
	}
	return nil
}

// inspectOptions turns the configuration into what to look at.
func inspectOptions(cfg *config.Config, f txnFlags) (txn.InspectOptions, error) {
	b := cfg.Bridge
	chain, err := transform.Parse(b.Transform)
	if err != nil {
		return txn.InspectOptions{}, &exitError{exitConfig, err}
	}
	o := txn.InspectOptions{
		Prefix: cmp.Or(f.prefix, b.TxnPrefix), Group: cmp.Or(f.group, b.GroupID), All: f.all, Name: f.name,
		OlderThan: 2 * b.EpochTimeout,
	}
	if f.all {
		o.Topics = func(all []string) []string { return all }
		return o, nil
	}
	plan := topics.Plan{Names: b.InputTopics.Names(), Output: b.OutputTopic, Targets: chain.Targets()}
	if p := b.InputTopics.Pattern(); p != "" {
		if plan.Pattern, err = regexp.Compile(p); err != nil {
			return o, &exitError{exitConfig, err}
		}
	}
	o.Topics = func(all []string) []string {
		inputs, _ := plan.Select(all)
		ours := slices.Concat(inputs, plan.Written(inputs), []string{b.DLQTopic, "__consumer_offsets"})
		return slices.DeleteFunc(slices.Clone(all), func(topic string) bool {
			// A hanging one that was named may be in any topic.
			return !slices.Contains(ours, topic) && !strings.HasPrefix(f.name, topic+"/")
		})
	}
	return o, nil
}

// seconds shows a length of time.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Minute && d%time.Second != 0 {
		return fmt.Sprintf("%.1fs", s)
	}
	return d.Round(time.Second).String()
}
