package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/eosbridge/eosbridge/txn"
)

// writeTransactions prints what list shows.
func writeTransactions(out io.Writer, seen *txn.Inspection) error {
	var b strings.Builder
	open, hanging := 0, 0
	var held int64
	for _, t := range seen.Transactions {
		writeHead(&b, t)
		if t.Open() {
			open++
			held += t.Held
			fmt.Fprintf(&b, "    %s\n", producerLine(t))
			fmt.Fprintf(&b, "    holds back %s\n", heldLine(t))
			fmt.Fprintf(&b, "    safe to abort: %s: %s\n", yesNo(t.Safe), t.Because)
		}
		if t.Kind == txn.KindHanging {
			hanging++
		}
	}
	fmt.Fprintf(&b, "%d open, %d of them hanging; %s offsets held back from read_committed readers\n", open, hanging, grouped(held))
	writeUnseen(&b, seen)
	_, err := io.WriteString(out, b.String())
	return err
}

func writeHead(b *strings.Builder, t txn.Transaction) {
	fmt.Fprintf(b, "%s  %s  %s", t.Name, t.Kind, t.State)
	switch {
	case t.Timeout > 0 && t.Age > 0:
		fmt.Fprintf(b, " for %s of %s", seconds(t.Age), seconds(t.Timeout))
	case t.Age > 0:
		fmt.Fprintf(b, ", last record %s ago", seconds(t.Age))
	}
	b.WriteString("\n")
}

func producerLine(t txn.Transaction) string {
	line := fmt.Sprintf("producer %d epoch %d", t.ProducerID, t.ProducerEpoch)
	switch {
	case t.Owner != nil:
		return fmt.Sprintf("%s; owner %s, client %s at %s", line, t.Instance, t.Owner.ClientID, t.Owner.Host)
	case t.Instance != "" && t.Kind == txn.KindDead:
		return fmt.Sprintf("%s; owner %s, not in the group", line, t.Instance)
	case t.Instance != "":
		return fmt.Sprintf("%s; owner %s", line, t.Instance)
	case t.ID != "" && t.ID != t.Name:
		return fmt.Sprintf("%s of %s", line, t.ID)
	}
	return line
}

// heldLine names the partitions, the first few at least.
func heldLine(t txn.Transaction) string {
	const shown = 8
	var parts []string
	for i, p := range t.Partitions {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more partitions", len(t.Partitions)-shown))
			break
		}
		part := fmt.Sprintf("%s/%d", p.Topic, p.Partition)
		if p.First >= 0 {
			part += fmt.Sprintf(" from %d (%s)", p.First, grouped(p.Held))
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "nothing that we may see"
	}
	return fmt.Sprintf("%s offsets: %s", grouped(t.Held), strings.Join(parts, ", "))
}

// writeTransaction prints what describe shows.
func writeTransaction(out io.Writer, seen *txn.Inspection, o txn.InspectOptions) error {
	var b strings.Builder
	for _, t := range seen.Transactions {
		writeHead(&b, t)
		fmt.Fprintf(&b, "    %s", producerLine(t))
		if t.Coordinator >= 0 {
			fmt.Fprintf(&b, "; coordinator: broker %d", t.Coordinator)
		}
		b.WriteString("\n")
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "    %s/%d: first offset %s, last stable offset %s, high watermark %s", p.Topic, p.Partition,
				offsetText(p.First), offsetText(p.Stable), offsetText(p.End))
			if p.First >= 0 && p.First == p.Stable {
				b.WriteString("; readers wait for this transaction")
			}
			b.WriteString("\n")
		}
		if t.Open() {
			fmt.Fprintf(&b, "    safe to abort: %s: %s\n", yesNo(t.Safe), t.Because)
		}
		fmt.Fprintf(&b, "    what ends it: %s\n", ending(t, o))
	}
	writeUnseen(&b, seen)
	_, err := io.WriteString(out, b.String())
	return err
}

// ending says what becomes of the transaction if nobody acts: what the bridge's recovery would do, and the coordinator.
func ending(t txn.Transaction, o txn.InspectOptions) string {
	timeout := fmt.Sprintf("its coordinator aborts it %s after its begin", seconds(t.Timeout))
	switch t.Kind {
	case txn.KindLive:
		return "its owner, within BRIDGE_EPOCH_TIMEOUT; else " + timeout
	case txn.KindDead:
		return fmt.Sprintf("a bridge that starts as %s, at once; another one of the group when it starts, or gains partitions that have to wait for this; else %s", t.Instance, timeout)
	case txn.KindForeign:
		if !t.Open() {
			return t.Because
		}
		return "its owner; else " + timeout + ". A bridge never touches ids outside its prefix " + o.Prefix
	case txn.KindHanging:
		return "nothing: no timeout counts for it, and the bridge writes no markers. Use eosbridge txn abort"
	case txn.KindIdle, txn.KindEnding:
		return t.Because
	case txn.KindUnknown:
		if t.Timeout > 0 {
			return "its owner, if it is alive; else " + timeout
		}
	}
	return "not known"
}

func writeAborted(out io.Writer, done txn.Aborted) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", done.Name, done.Did)
	for _, p := range done.After {
		fmt.Fprintf(&b, "    %s/%d: last stable offset %s, high watermark %s\n", p.Topic, p.Partition, offsetText(p.Stable), offsetText(p.End))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeUnseen(out io.Writer, seen *txn.Inspection) {
	for _, u := range seen.Unseen {
		fmt.Fprintf(out, "not visible: %s: %s\n", u.What, u.Because)
		if u.Grant != "" {
			fmt.Fprintf(out, "    to see it: %s\n", u.Grant)
		}
	}
}

func offsetText(offset int64) string {
	if offset < 0 {
		return "not visible"
	}
	return fmt.Sprint(offset)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
