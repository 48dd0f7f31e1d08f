package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eosbridge/eosbridge/check"
	"github.com/eosbridge/eosbridge/config"
)

// checkBed is an embedded broker (kfake, not Apache Kafka) with topics. It keeps groups and transactions in no topics,
// so they are made for show: without them check takes it for a cluster that has none yet.
func checkBed(t *testing.T, topics ...string) map[string]string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, append(topics, "__consumer_offsets", "__transaction_state")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return leastEnviron("KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","))
}

// TestCheck: what is printed, for people and for programs, and the statuses.
func TestCheck(t *testing.T) {
	with := func(environ map[string]string, pairs ...string) map[string]string {
		for i := 0; i < len(pairs); i += 2 {
			environ[pairs[i]] = pairs[i+1]
		}
		return environ
	}
	for _, row := range []struct {
		name    string
		environ map[string]string
		args    []string
		status  int
		want    []string // in the output
		never   []string
	}{
		{
			"all is well", checkBed(t, "orders", "orders-clean"), nil, exitOK,
			[]string{"STATUS  RULE ", "PASS    output.exists ", "WARN    topic.replication ", "\nWARN: 0 FAIL, "},
			[]string{"FAIL    "},
		},
		{"all is well, quietly", checkBed(t, "orders", "orders-clean"), []string{"--quiet"}, exitOK, nil, []string{"A", "S"}},
		{
			"no output", checkBed(t, "orders"), nil, exitFailure,
			[]string{"FAIL    output.exists ", "--create --topic orders-clean --partitions 1", "PASS    input.exists ", "\nFAIL: 1 FAIL, "},
			nil,
		},
		{"no output, quietly", checkBed(t, "orders"), []string{"--quiet"}, exitFailure, []string{"FAIL    output.exists "}, []string{"PASS    ", "WARN    "}},
		{
			"nobody there", leastEnviron("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1"), nil, exitFailure,
			[]string{"FAIL    broker.reachable ", "refused: "},
			[]string{"output.exists"},
		},
		{
			"a broken law hides nothing", with(checkBed(t, "orders"), "BRIDGE_SESSION_TIMEOUT", "30s"), nil, exitFailure,
			[]string{"FAIL    config ", "raise this to 41s or more, or lower BRIDGE_TXN_TIMEOUT", "FAIL    output.exists "},
			nil,
		},
		{
			"nothing to look at",
			map[string]string{"BRIDGE_GROUP_ID": "g"},
			nil, exitFailure,
			[]string{"FAIL    config ", "KAFKA_BOOTSTRAP_SERVERS", "not checked: the configuration does not say"},
			[]string{"output.exists"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, stdout, stderr := runMain(row.environ, append([]string{"check"}, row.args...)...)
			if status != row.status || stderr != "" {
				t.Errorf("status %d, want %d: %s", status, row.status, stderr)
			}
			for _, want := range row.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%q is missing in\n%s", want, stdout)
				}
			}
			for _, never := range row.never {
				if strings.Contains(stdout, never) {
					t.Errorf("%q is in\n%s", never, stdout)
				}
			}
		})
	}
}

func TestCheckJSON(t *testing.T) {
	status, stdout, _ := runMain(checkBed(t, "orders"), "check", "--json")
	var r check.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if status != exitFailure || r.Verdict != check.Fail || r.Fail != 1 || r.Pass+r.Warn+r.Fail != len(r.Findings) || r.Version == "" {
		t.Errorf("status %d, %+v", status, r)
	}
}

func TestCheckUsage(t *testing.T) {
	for _, args := range [][]string{{"--timeout", "10ms"}, {"orders"}, {"--jsn"}} {
		if status, stdout, _ := runMain(leastEnviron(), append([]string{"check"}, args...)...); status != exitUsage || stdout != "" {
			t.Errorf("%v: status %d, %q", args, status, stdout)
		}
	}
}

func TestPrincipal(t *testing.T) {
	cert, key := newAuthority(t, "ca").sign(t.TempDir(), "bridge")
	for _, row := range []struct {
		k    config.Kafka
		want string
	}{
		{config.Kafka{SecurityProtocol: config.ProtocolPlaintext}, "User:ANONYMOUS"},
		{config.Kafka{SecurityProtocol: config.ProtocolSSL}, "User:ANONYMOUS"},
		{config.Kafka{SecurityProtocol: config.ProtocolSSL, TLSCertFile: cert, TLSKeyFile: key}, "User:CN=bridge"},
		{config.Kafka{SecurityProtocol: config.ProtocolSASLSSL, SASLMechanism: config.MechanismScramSHA512, SASLUsername: "alice"}, "User:alice"},
		{config.Kafka{SecurityProtocol: config.ProtocolSASLSSL, SASLMechanism: config.MechanismOAuthBearer}, ""},
		{config.Kafka{SecurityProtocol: config.ProtocolSASLSSL, SASLMechanism: config.MechanismMSKIAM}, ""},
	} {
		if got := principal(&row.k); got != row.want {
			t.Errorf("%s %s: %q, want %q", row.k.SecurityProtocol, row.k.SASLMechanism, got, row.want)
		}
	}
}

func TestExposed(t *testing.T) {
	k := config.Kafka{SecurityProtocol: config.ProtocolSASLPlaintext, SASLAllowPlaintext: true, TLSInsecureSkipVerify: true}
	if got := exposed(&k); len(got) != 1 || got[0].Variable != "KAFKA_SASL_ALLOW_PLAINTEXT" {
		t.Errorf("%+v", got)
	}
	k.SecurityProtocol = config.ProtocolSASLSSL
	if got := exposed(&k); len(got) != 1 || got[0].Variable != "KAFKA_TLS_INSECURE_SKIP_VERIFY" {
		t.Errorf("%+v", got)
	}
}
