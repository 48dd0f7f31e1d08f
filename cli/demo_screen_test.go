package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDemoReport(t *testing.T) {
	exact := demoReport{
		verdict:     verdict{In: 40000, Out: 40000, RolledBack: 1204, Committed: 151, Aborted: 9},
		kills:       14,
		afterCommit: 7,
		resumed:     []time.Duration{310 * time.Millisecond, 250 * time.Millisecond, 480 * time.Millisecond},
	}
	faulty := exact
	faulty.verdict.Duplicated, faulty.verdict.Out = 12, 40012
	open := exact
	open.end.open = 1
	held := exact
	held.end.held = 2
	idle := demoReport{verdict: verdict{In: 5, Out: 5, Committed: 1}}
	for _, tt := range []struct {
		name   string
		report demoReport
		exact  bool
		want   string
	}{
		{"exact", exact, true, `
  records in                 40,000   acknowledged by the input topic
  records out                40,000   shown to a read_committed reader that ran throughout
  duplicated                      0
  lost                            0
  out of order                    0   within a partition
  altered                         0   other bytes, another partition, or never sent
  kills                          14   SIGKILL: 7 soon after a start, 7 after a commit
  next commit after a kill   0.31 s   median; 0.48 s at most
  epochs committed              151   transactions with a commit marker in the output
  epochs aborted                  9   cut short; the 1,204 records they had written were never shown
  transactions left open          0

EXACTLY ONCE: yes
`},
		{"duplicates", faulty, false, "\n  duplicated                     12\n"},
		{"open transaction", open, false, "\n  transactions left open          1\n"},
		{"held back", held, false, "  transactions left open          0   2 partitions hold records back from readers\n"},
		{"no kills", idle, true, "\n  kills                    0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tt.report.write(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains("\n"+out.String(), tt.want) {
				t.Errorf("got\n%s\nwant\n%s", out.String(), tt.want)
			}
			if tt.report.exact() != tt.exact || strings.HasSuffix(out.String(), "EXACTLY ONCE: yes\n") != tt.exact {
				t.Errorf("exact is %v, want %v:\n%s", tt.report.exact(), tt.exact, out.String())
			}
		})
	}
}

func TestDemoScreenLines(t *testing.T) {
	var out bytes.Buffer
	s := newDemoScreen(&out)
	s.show(demoProgress{elapsed: 12345 * time.Millisecond, total: 40000, in: 30100, out: 29800, kills: 9, allKills: 14, epochs: 101})
	s.clear()
	want := "  12.3 s   in  30,100   out  29,800   kills   9   epochs  101\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestDemoScreenTerminal(t *testing.T) {
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{100, "\r[" + strings.Repeat("#", 20) + strings.Repeat(".", 20) + "]  in 2,500  out 2,000  kills 3/14  epochs 17" + "\x1b[K"},
		{60, "\r[######.......]  in 2,500  out 2,000  kills 3/14  epochs 17\x1b[K"},
		{50, "\r  in 2,500  out 2,000  kills 3/14  epochs 17\x1b[K"},
		{20, "\r  in 2,500  out 2,0\x1b[K"},
	} {
		var out bytes.Buffer
		s := &demoScreen{out: &out, terminal: true, columns: func() int { return tt.columns }}
		s.show(demoProgress{total: 4000, in: 2500, out: 2000, kills: 3, allKills: 14, epochs: 17})
		if out.String() != tt.want {
			t.Errorf("%d columns: got %q, want %q", tt.columns, out.String(), tt.want)
		}
		if visible := len(out.String()) - len("\r\x1b[K"); visible >= tt.columns {
			t.Errorf("%d columns: the line has %d", tt.columns, visible)
		}
		out.Reset()
		s.clear()
		s.clear()
		if out.String() != "\r\x1b[K" {
			t.Errorf("cleared with %q", out.String())
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 40000: "40,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDemoLog(t *testing.T) {
	var commits int
	log := &demoLog{committed: func() { commits++ }}
	for _, part := range []string{
		`{"level":"INFO","msg":"state changed","state":"running"}` + "\n" + `{"level":"DEBUG","msg":"epoch comm`,
		`itted","epoch":1}` + "\n" + `{"level":"DEBUG","msg":"epoch barrier","epoch":2}` + "\n",
		`{"level":"DEBUG","msg":"epoch committed","epoch":2,"outcome":"carried"}` + "\n",
		`{"level":"DEBUG","msg":"epoch committed","epoch":3,"outcome":"committed"}` + "\n\n",
		"panic: out of luck\n\tgoroutine",
	} {
		if n, err := log.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if commits != 2 {
		t.Errorf("%d commits, want 2", commits)
	}
	want := "{\"level\":\"INFO\",\"msg\":\"state changed\",\"state\":\"running\"}|panic: out of luck|\tgoroutine"
	if got := strings.Join(log.tail(), "|"); got != want {
		t.Errorf("tail %q, want %q", got, want)
	}
	for range 2 * demoLogLines {
		_, _ = log.Write([]byte("again\n"))
	}
	if got := log.tail(); len(got) != demoLogLines || got[0] != "again" {
		t.Errorf("%d lines kept, the first %q", len(got), got[0])
	}
}
