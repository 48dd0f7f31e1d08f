package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/txn"
)

// Names that judge looks for.
const (
	ruleConfig     = "config"
	ruleProtection = "config.protection"
	ruleInstance   = "instance.id"
	ruleReachable  = "broker.reachable"
)

func brokerRules() []rule {
	return []rule{
		{
			ruleConfig, "the configuration keeps its own laws (docs/configuration.md)",
			"a law is broken; `run` would end with status 78", "", judgeConfig,
		},
		{
			ruleProtection, "certificates are verified, and credentials encrypted", "", "`KAFKA_TLS_INSECURE_SKIP_VERIFY` or `KAFKA_SASL_ALLOW_PLAINTEXT` gives that up", judgeProtection,
		},
		{
			ruleInstance, "`BRIDGE_INSTANCE_ID` outlives a restart", "",
			"it looks made at random: a Deployment's pod, a container's id, a UUID", judgeInstance,
		},
		{
			ruleReachable, "every bootstrap server, and every broker at the address that it advertises, answers by TLS and SASL as configured; each is asked",
			"no bootstrap server answers; an advertised broker does not; a certificate or our credentials are refused",
			"a bootstrap server does not answer, and another one does", judgeReachable,
		},
		{
			"broker.version", "every broker runs Kafka 3.6 or later; with `BRIDGE_GROUP_PROTOCOL=consumer` 4.3 or later",
			"one is older", "", judgeVersion,
		},
		{
			"transaction.version", "the finalized feature is 2 or higher (exactly-once)", "",
			"it is lower: longer epochs, and a producer made anew per epoch", judgeFeature,
		},
	}
}

func judgeConfig(s *Snapshot) []Finding {
	if len(s.Problems) == 0 {
		return []Finding{pass("BRIDGE_*, KAFKA_*", "no problem", "")}
	}
	var findings []Finding
	for _, p := range s.Problems {
		// The message is "value, what is wrong: remedy", by the house's rule.
		value, remedy := p.Message, "see docs/configuration.md"
		if i := strings.LastIndex(p.Message, ": "); i > 0 {
			value, remedy = p.Message[:i], p.Message[i+2:]
		}
		findings = append(findings, fail(p.Variable, value, "", remedy))
	}
	return findings
}

func judgeProtection(s *Snapshot) []Finding {
	var findings []Finding
	for _, e := range s.Exposed {
		findings = append(findings, warn(e.Variable, e.Message, "false", "unset it; give the authority by KAFKA_TLS_CA_FILE, and use SASL_SSL"))
	}
	if len(findings) == 0 && !s.Unusable {
		return []Finding{pass("KAFKA_*", "nothing is given up", "")}
	}
	return findings
}

// madeUp says what a name looks like that somebody makes anew for each process; empty for names of people. Kubernetes
// takes its random letters from an alphabet without vowels (k8s.io/apimachinery/pkg/util/rand), and writes the hash of a
// Deployment's pods in it, too. A name such as srv24 is of that alphabet, and no random one.
func madeUp(name string) string {
	const letters = `[bcdf-hj-np-tv-z2456789]`
	matches := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(name) }
	switch {
	case matches(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`):
		return "a UUID"
	case matches(`^([0-9a-f]{12}|[0-9a-f]{64})$`) && matches(`[a-f]`):
		return "a container's id"
	case matches(`.-`+letters+`{6,10}-`+letters+`{5}$`) && matches(`[0-9]`):
		return "the pod of a Deployment"
	case matches(`.-`+letters+`{5}$`) && matches(`[0-9][a-z]+$|[0-9][a-z]+[0-9]+$`):
		return "the pod of a DaemonSet or a Job"
	}
	return ""
}

func judgeInstance(s *Snapshot) []Finding {
	const bound = "the same after a restart"
	if s.Instance == "" {
		return nil // the configuration's laws have said so
	}
	if what := madeUp(s.Instance); what != "" {
		return []Finding{warn(s.Instance, "looks like "+what, bound,
			"set BRIDGE_INSTANCE_ID to a name that stays (on Kubernetes a StatefulSet's pod name does); a restart under another name waits for the session timeout of the old one")}
	}
	return []Finding{pass(s.Instance, "does not look random", bound)}
}

func judgeReachable(s *Snapshot) []Finding {
	var findings []Finding
	if s.Unusable {
		return []Finding{warn("cluster", "not checked: the configuration does not say what to look at", "", "correct the configuration, then check again")}
	}
	for _, c := range s.Seeds {
		subject := "bootstrap " + c.Address
		switch class, remedy := contactClass(c.Err); {
		case c.Err == nil:
			findings = append(findings, pass(subject, "answers", ""))
		case s.Reached && (class == classRefused || class == classTimeout || class == className):
			findings = append(findings, warn(subject, class+": "+brief(c.Err), "", "another bootstrap server answers; "+remedy))
		default:
			findings = append(findings, fail(subject, class+": "+brief(c.Err), "", remedy))
		}
	}
	for _, c := range s.Brokers {
		subject := fmt.Sprintf("broker %d %s", c.Node, c.Address)
		if c.Err == nil {
			findings = append(findings, pass(subject, "answers", ""))
			continue
		}
		class, remedy := contactClass(c.Err)
		findings = append(findings, fail(subject, class+": "+brief(c.Err), "", remedy+"; the address is from the broker's advertised.listeners"))
	}
	return findings
}

// The ways in which a broker does not answer.
const (
	classRefused        = "refused"
	classTimeout        = "timeout"
	className           = "name"
	classCertificate    = "certificate"
	classAuthentication = "authentication"
	classProtocol       = "protocol"
	classOther          = "failed"
)

// contactClass tells the ways apart, each with what to do.
func contactClass(err error) (class, remedy string) {
	var (
		dns       *net.DNSError
		firstRead *kgo.ErrFirstReadEOF
		timeout   net.Error
	)
	switch a := txn.AdmissionOf(err); a {
	case txn.Admitted:
	case txn.CredentialsFail, txn.MechanismFails:
		return classAuthentication, a.Remedy()
	case txn.BrokerWithoutTLS:
		return classProtocol, a.Remedy()
	case txn.OwnCertificate, txn.BrokerUnknown, txn.BrokerMisnamed, txn.BrokerExpired:
		return classCertificate, a.Remedy()
	}
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &firstRead), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return classProtocol, "the broker hung up at once: does KAFKA_SECURITY_PROTOCOL say TLS and SASL as this listener does?"
	case errors.As(err, &dns):
		return className, "correct the name, or this host's resolver"
	case errors.Is(err, syscall.ECONNREFUSED):
		return classRefused, "start the broker, or correct host and port"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return classTimeout, "look for a firewall or a missing route between this host and the broker"
	}
	return classOther, "look at the broker's log"
}

// brief is an error on one line that is not too long.
func brief(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

func judgeVersion(s *Snapshot) []Finding {
	var findings []Finding
	bound := "3.6 or later"
	if s.Consumer {
		bound = "4.3 or later"
	}
	for _, c := range s.Brokers {
		if c.Answer == nil {
			continue // not reachable, which is said
		}
		subject, guess := fmt.Sprintf("broker %d", c.Node), "Kafka "+strings.TrimPrefix(txn.Guess(c.Answer), "v")
		if err := txn.Supported(c.Node, c.Answer, s.Consumer); err != nil {
			remedy := "upgrade the broker"
			if s.Consumer && txn.Supported(c.Node, c.Answer, false) == nil {
				remedy += ", or set BRIDGE_GROUP_PROTOCOL=classic"
			}
			findings = append(findings, fail(subject, guess, bound, remedy))
			continue
		}
		findings = append(findings, pass(subject, guess, bound))
	}
	return findings
}

func judgeFeature(s *Snapshot) []Finding {
	if !s.Transactional {
		return nil
	}
	version, newest := int16(0), int64(-1)
	for _, c := range s.Brokers {
		if c.Answer != nil && c.Answer.FinalizedFeaturesEpoch >= newest {
			newest, version = c.Answer.FinalizedFeaturesEpoch, txn.Finalized(c.Answer)
		}
	}
	value := fmt.Sprint(version)
	if version < 2 {
		return []Finding{warn("cluster", value, "2 or higher",
			"with Kafka 4.0 or later: kafka-features.sh --bootstrap-server "+s.bootstrap()+" upgrade --feature transaction.version=2")}
	}
	return []Finding{pass("cluster", value, "2 or higher")}
}
