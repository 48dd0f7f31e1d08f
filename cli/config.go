package cli

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/transform"
)

// loadConfig reads the configuration of every command that needs one. All problems are reported together, those
// that only this room can see included: the transforms' syntax, and the content of the TLS files.
func loadConfig(c *Context) (*config.Config, error) {
	return config.Load(c.Environ, c.Hostname, checkTransform, checkTLS, checkTracing)
}

// checkTransform parses the chain, and refuses one that routes to a topic listed as input: what is written would
// be read again without end. (A regular expression never matches our own outputs.)
func checkTransform(cfg *config.Config) []config.Problem {
	const name = "BRIDGE_TRANSFORM"
	spec, err := transform.Parse(cfg.Bridge.Transform)
	if err != nil {
		return []config.Problem{{Variable: name, Message: fmt.Sprintf("%q: %v (see 'eosbridge transform list')", cfg.Bridge.Transform, err)}}
	}
	problems := checkSchemas(cfg, spec)
	inputs := cfg.Bridge.InputTopics.Names()
	for _, target := range spec.Targets() {
		if slices.Contains(inputs, target) {
			problems = append(problems, config.Problem{
				Variable: name,
				Message:  fmt.Sprintf("%q routes to %s, which BRIDGE_INPUT_TOPICS lists as input: route to another topic", cfg.Bridge.Transform, target),
			})
		}
	}
	return problems
}

func configCommand() command {
	return command{
		name:    "config",
		summary: "show the effective settings; 'config docs' explains them all",
		usage: `usage: eosbridge config [--json]
       eosbridge config docs

Reads the configuration from the environment as 'run' does, without reaching for the cluster. Shows every
setting with its value and its origin: default, environment, or the file that held the secret. Secrets are shown
as ***. If something is wrong, all problems are listed and the exit status is 78.

'config docs' prints the reference page of all variables in Markdown.

  --json   print a JSON array of objects with name, value and origin`,
		example: "BRIDGE_EPOCH_INTERVAL=1s eosbridge config\neosbridge config docs > configuration.md",
		run:     runConfig,
	}
}

func runConfig(_ context.Context, c *Context, args []string) error {
	flags := newFlags("config")
	asJSON := flags.Bool("json", false, "")
	if len(args) > 0 && args[0] == "docs" {
		if err := parseFlags(newFlags("config docs"), args[1:]); err != nil {
			return err
		}
		return config.WriteReference(c.Stdout)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(c.Stdout, cfg.Settings())
	}
	table := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tORIGIN")
	for _, s := range cfg.Settings() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.Value, s.Origin)
	}
	return table.Flush()
}
