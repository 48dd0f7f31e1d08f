package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// TestPasswordIsReadAgain: the password is rotated at the broker and in its file; the next connection has the new one,
// without a restart.
func TestPasswordIsReadAgain(t *testing.T) {
	address := cluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "old"), kfake.Superuser("SCRAM-SHA-256", "admin", "a"))
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	cfg, err := loadConfig(&Context{Hostname: "pod-0", Environ: map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": address, "BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "orders", "BRIDGE_GROUP_ID": "g",
		"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-256", "KAFKA_SASL_USERNAME": "u",
		"KAFKA_SASL_PASSWORD_FILE": file,
	}})
	if err != nil {
		t.Fatal(err)
	}
	options, err := kafkaOptions(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	connect := func(options ...kgo.Opt) error {
		client, err := kgo.NewClient(options...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return client.Ping(ctx)
	}
	if err := connect(options...); err != nil {
		t.Fatal(err)
	}

	admin, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.SASL(scram.Auth{User: "admin", Pass: "a"}.AsSha256Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	resp, err := kadm.NewClient(admin).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
		{User: "u", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "new"},
	})
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(options...); err == nil {
		t.Error("the old password still opens the door: this test shows nothing")
	}
	write("new")
	if err := connect(options...); err != nil {
		t.Errorf("with the new password in its file: %v", err)
	}
}
