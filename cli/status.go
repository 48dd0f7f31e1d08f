package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
)

func statusCommand() command {
	return command{
		name:    "status",
		summary: "ask a running bridge what it is doing, and whether it is ready",
		usage: `usage: eosbridge status [--addr URL] [--json] [--timeout DURATION]
       eosbridge status --healthcheck [--addr URL] [--timeout DURATION]

Asks a running bridge at the address of BRIDGE_HTTP_ADDR, which is 127.0.0.1:9464 by default, and prints a summary.
The same is shown at that address as a web page. The status is 0 if the bridge is ready, 1 if it is not, and 69 if
nothing answers.

  --addr URL           where to ask, such as http://orders-bridge-0:9464
  --json               print the answer of /api/status as it is
  --timeout DURATION   give up after this time (5s)
  --healthcheck        ask /livez, for a container's HEALTHCHECK: 0 if the process is alive, else 1. It does not ask
                       whether it is ready: a bridge that waits for its brokers is not mended by a restart`,
		example: "eosbridge status\neosbridge status --addr http://orders-bridge-0:9464 --json",
		run:     status,
	}
}

func status(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("status")
	addr := flags.String("addr", "", "")
	asJSON := flags.Bool("json", false, "")
	health := flags.Bool("healthcheck", false, "")
	timeout := flags.Duration("timeout", 5*time.Second, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *asJSON && *health {
		return usageErrorf("--json and --healthcheck exclude each other; see eosbridge status --help")
	}
	base, err := statusURL(*addr, c.Environ["BRIDGE_HTTP_ADDR"])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if *health {
		return healthcheck(ctx, c.Stdout, base)
	}
	code, body, err := askBridge(ctx, base+"/api/status")
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	var report bridge.Report
	if err := json.Unmarshal(body, &report); err != nil || code != http.StatusOK || report.State == "" {
		return &exitError{exitUnavailable, fmt.Errorf("%s answers with status %d and not as a bridge does: is --addr right?", base, code)}
	}
	if *asJSON {
		fmt.Fprintf(c.Stdout, "%s\n", strings.TrimSpace(string(body)))
	} else if err := writeStatus(c.Stdout, report, time.Now()); err != nil {
		return err
	}
	if !report.Ready || !report.Live {
		return notReadyError{}
	}
	return nil
}

// notReadyError is what status ends with when it has printed why.
type notReadyError struct{}

func (notReadyError) Error() string { return "not ready" }
func (notReadyError) Quiet() bool   { return true }

// healthcheck ends with 0 or 1: container engines know no other status.
func healthcheck(ctx context.Context, out io.Writer, base string) error {
	code, body, err := askBridge(ctx, base+"/livez")
	if err != nil {
		return &exitError{exitFailure, err}
	}
	fmt.Fprintln(out, printable(strings.TrimSpace(string(body))))
	if code != http.StatusOK {
		return notReadyError{}
	}
	return nil
}

// statusURL is where the bridge is asked: at the given address, else where the configuration lets it listen.
func statusURL(given, listens string) (string, error) {
	if given == "" {
		if listens == "" {
			listens = "127.0.0.1:9464" // as BRIDGE_HTTP_ADDR has it by default; a test compares
		}
		var listen config.Address
		if err := listen.UnmarshalText([]byte(listens)); err != nil {
			return "", &exitError{exitConfig, fmt.Errorf("BRIDGE_HTTP_ADDR=%q %w", listens, err)}
		}
		if listen == "" {
			return "", &exitError{exitConfig, errors.New("BRIDGE_HTTP_ADDR is off: the bridge answers nobody; set it to host:port, or name another bridge with --addr")}
		}
		host, port, err := net.SplitHostPort(string(listen))
		if err != nil {
			return "", &exitError{exitConfig, err}
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1" // it listens on all addresses
			if ip != nil && ip.To4() == nil {
				host = "::1"
			}
		}
		return "http://" + net.JoinHostPort(host, port), nil
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usageErrorf("--addr %q is not the address of a bridge: write http://host:port", given)
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimRight(u.String(), "/"), nil
}

// askBridge gets one answer, of a few megabytes at most. Redirects are not followed: a bridge sends none.
func askBridge(ctx context.Context, address string) (code int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy: it would answer in the bridge's place
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: is the bridge running there? BRIDGE_HTTP_ADDR and --addr say where to ask", err)
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, 32<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return answer.StatusCode, body, nil
}

// writeStatus prints what people look for first. now is the clock of this side.
func writeStatus(out io.Writer, r bridge.Report, now time.Time) error {
	ago := func(t time.Time) string { return max(now.Sub(t), 0).Round(100*time.Millisecond).String() + " ago" }
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	row("bridge", "%s, instance %s, %s, version %s", r.Group, r.Instance, r.Delivery, r.Version)
	row("verdict", "%s", r.Verdict)
	for _, problem := range r.Problems {
		row("", "%s", problem)
	}
	row("state", "%s since %s", r.State, r.Since.UTC().Format(time.RFC3339))
	row("assigned", "%s", assignedText(r.Assigned))
	committed := "nothing yet"
	if r.LastCommitted.Epoch > 0 {
		committed = fmt.Sprintf("epoch %d, %s", r.LastCommitted.Epoch, ago(r.LastCommitted.At))
	}
	row("committed", "%s", committed)
	if r.State == bridge.StateRecovering || r.State == bridge.StateStopped {
		row("running", "no epoch")
	} else {
		row("running", "epoch %d, a barrier every %s", r.Epoch, time.Duration(r.IntervalSeconds*float64(time.Second)).Round(time.Millisecond))
	}
	if r.Lag.At.IsZero() {
		row("lag", "not asked yet")
	} else {
		row("lag", "%s records, %s", grouped(r.Lag.Total), ago(r.Lag.At))
	}
	if r.OpenTxn.Since.IsZero() {
		row("open transaction", "none")
	} else {
		row("open transaction", "%.1f s of %.0f s", r.OpenTxn.AgeSeconds, r.OpenTxn.TimeoutSeconds)
	}
	row("epochs", "%s committed, %s aborted, %s carried", grouped(r.Counters.Committed), grouped(r.Counters.Aborted), grouped(r.Counters.Carried))
	row("records", "%s in, %s out", grouped(r.Counters.RecordsIn), grouped(r.Counters.RecordsOut))
	row("failed records", "%s skipped, %s dead letters", grouped(r.FailedRecords.Skipped), grouped(r.FailedRecords.DeadLetters))
	row("restarts", "%d, %d since the last commit", r.Restarts.Total, r.Restarts.Consecutive)
	if e := r.LastError; e != nil {
		row("last error", "%s, %s: %s", e.Class, ago(e.At), e.Err)
		row("what to do", "%s", r.Advice)
	}
	return table.Flush()
}

// assignedText lists the partitions of each topic: the first few, and how many in all.
func assignedText(assigned map[string][]int32) string {
	if len(assigned) == 0 {
		return "none"
	}
	const shown = 5
	topics := make([]string, 0, len(assigned))
	total := 0
	for topic, partitions := range assigned {
		topics = append(topics, fmt.Sprintf("%s (%d)", topic, len(partitions)))
		total += len(partitions)
	}
	slices.Sort(topics)
	more := ""
	if len(topics) > shown {
		more = fmt.Sprintf(" and %d more topics", len(topics)-shown)
		topics = topics[:shown]
	}
	return fmt.Sprintf("%d partitions: %s%s", total, strings.Join(topics, ", "), more)
}

// printable keeps a terminal safe from what stands in names and errors, and each row a row.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
