// Package config reads the configuration of eosbridge from the environment: one typed struct, every problem
// reported at once, every secret masked wherever it is printed.
//
// The struct tags are the single source: from them come the parser, the list of known names, the effective
// settings shown by "eosbridge config" and the reference page written by "eosbridge config docs".
//
//	env         name of the variable without the prefix of its group
//	envDefault  literal default
//	default     words for a default that is worked out at load or run time (reference page only)
//	required    "true": there is no default
//	oneof       permitted words, separated by |, compared without regard to case
//	example     value shown in messages and in the reference page
//	section     first variable of a new section of the reference page
//	doc         meaning; 'quoted words' become code on the reference page
//
// Decision: the environment is an argument, and an empty variable counts as unset. Templates of Kubernetes,
// Compose and systemd all produce empty variables by accident, and no setting here has a meaningful empty value.
//
// Decision: the parser's own error text is never shown, because it quotes the value it could not parse, which
// may be a secret, and names the Go field in place of the variable.
//
// This room imports the standard library and env/v11, nothing else. It turns text into values and refuses
// values that cannot work; it does not reach for the network, and reads no file but those that hold secrets.
package config
