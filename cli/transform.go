package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/eosbridge/eosbridge/transform"
)

func transformCommand() command {
	return command{
		name:    "transform",
		summary: "'transform list' shows what BRIDGE_TRANSFORM may hold",
		usage: `usage: eosbridge transform list [--json]

Lists the transforms that are built in, each with the form of its argument, what it does, and an example.
BRIDGE_TRANSFORM joins them with |, read from left to right.

  --json   print a JSON array of objects with name, usage, doc and example`,
		example: "eosbridge transform list\n" +
			"BRIDGE_TRANSFORM='drop_tombstones | route(orders-eu)' eosbridge config",
		run: runTransform,
	}
}

func runTransform(_ context.Context, c *Context, args []string) error {
	if len(args) == 0 || args[0] != "list" {
		if len(args) > 0 {
			return usageErrorf("unknown subcommand %q: use eosbridge transform list", args[0])
		}
		return usageErrorf("a subcommand is missing: use eosbridge transform list")
	}
	flags := newFlags("transform list")
	asJSON := flags.Bool("json", false, "")
	if err := parseFlags(flags, args[1:]); err != nil {
		return err
	}
	if *asJSON {
		return printJSON(c.Stdout, listedTransforms())
	}
	_, err := fmt.Fprint(c.Stdout, transformList(listedTransforms()))
	return err
}

// listedTransform is a transform in the list for programs.
type listedTransform struct {
	Name    string `json:"name"`
	Usage   string `json:"usage"`
	Summary string `json:"-"`
	Doc     string `json:"doc"`
	Example string `json:"example"`
}

func listedTransforms() []listedTransform {
	var listed []listedTransform
	for _, d := range transform.Definitions() {
		listed = append(listed, listedTransform{Name: d.Name, Usage: d.Usage, Summary: d.Summary(), Doc: d.Doc, Example: d.Example})
	}
	return listed
}

// transformList is the list for people: the form, what it does in one sentence, and an
// example unless it would repeat the form.
func transformList(listed []listedTransform) string {
	var b strings.Builder
	for i, t := range listed {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n    %s\n", t.Usage, t.Summary)
		if t.Example != t.Usage {
			fmt.Fprintf(&b, "    example: %s\n", t.Example)
		}
	}
	return b.String()
}
