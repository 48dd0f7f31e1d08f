// Command parts writes down what a binary of ours is made of: a list for programs (SBOM, CycloneDX) and the licences of all
// that is linked into it, which their texts demand to be handed on with a binary.
//
//	parts -version v1.2.3 -date 2026-11-30T12:00:00Z -sbom eosbridge.cdx.json -licences THIRD_PARTY.txt bin/eosbridge
//
// It reads what the toolchain has recorded in the binary, so it works for every platform, and takes the texts from the
// module cache. The same binary gives the same files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("parts", flag.ContinueOnError)
	flags.SetOutput(stderr)
	version := flags.String("version", "", "version of the release")
	date := flags.String("date", "", "time of the release, RFC 3339; the commit's, so that it can be made again; another text is left out")
	sbom := flags.String("sbom", "", "file for the list of parts, CycloneDX in JSON")
	licences := flags.String("licences", "", "file for the texts of all licences")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *version == "" || *date == "" || *sbom == "" || *licences == "" {
		return errors.New("usage: parts -version VERSION -date TIME -sbom FILE -licences FILE BINARY")
	}
	b, err := read(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	list, err := b.list(*version, *date)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*sbom, list, 0o644); err != nil { //nolint:gosec // meant to be read by all
		return err
	}
	return os.WriteFile(*licences, b.texts(), 0o644) //nolint:gosec // meant to be read by all
}
