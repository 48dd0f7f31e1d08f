package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/eosbridge/eosbridge/transform"
)

func transformRunCommand() command {
	return command{
		name:    "run",
		summary: "pass records of the standard input through a chain",
		usage: `usage: eosbridge transform run [--chain CHAIN] [--keep-going] < records

Reads a record per line, passes each through one instance of the chain, and writes what becomes of it, a record per
line: none if it is dropped, several if it becomes several. Nothing else is needed, neither Kafka nor configuration.
It ends with status 1 at the first record that cannot be read or is refused.

  --chain CHAIN   the chain; without it that of BRIDGE_TRANSFORM
  --keep-going    report such a record, go on, and end with status 1

` + recordForm,
		example: `echo '{"key":"k","value":{"region":"eu","amount":250.10}}' |
  eosbridge transform run --chain 'filter(value.amount > 100) | set(value.tier = "gold")'`,
		run: runTransformRun,
	}
}

// maxLine bounds a line of input, in bytes: records may be as large as a transform may make them, and base64 or escapes
// make them larger.
const maxLine = 256 << 20

func runTransformRun(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("transform run")
	expr := flags.String("chain", "", "")
	keepGoing := flags.Bool("keep-going", false, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	spec, err := chainOf(ctx, c, *expr)
	if err != nil {
		return err
	}
	chain := spec.New()
	chain.Until(ctx)
	out := bufio.NewWriter(c.Stdout)
	defer out.Flush() //nolint:errcheck // on the way out of another error; in the good case it is checked below
	failed := 0
	var results []transform.Record
	err = eachRecord(ctx, c.Stdin, func(number int, r *transform.Record, err error, idle bool) error {
		if err == nil {
			results, err = chain.Apply(r, results[:0])
		}
		if err != nil {
			if err = fmt.Errorf("line %d: %w", number, err); !*keepGoing {
				return err
			}
			failed++
			fmt.Fprintf(c.Stderr, "eosbridge: %v\n", err)
			return nil
		}
		for i := range results {
			if _, err := out.Write(append(appendRecord(nil, &results[i]), '\n')); err != nil {
				return err
			}
		}
		if idle { // whoever writes lines by hand, or slowly, wants to see what became of them
			return out.Flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d records failed", failed)
	}
	return nil
}

// eachRecord calls what with each record of in, or with the error of a line that is none. number is that of the line,
// from 1; idle says that nothing more is there to read for now.
func eachRecord(ctx context.Context, in io.Reader, what func(number int, r *transform.Record, err error, idle bool) error) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	var records int64
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, err := readLine(reader)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			r := firstBase(records)
			text, err := decodeRecord(line)
			if err == nil {
				r, err = text.over(r)
			}
			records++
			if err := what(number, &r, err, reader.Buffered() == 0); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// readLine reads a line of any length up to maxLine.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
