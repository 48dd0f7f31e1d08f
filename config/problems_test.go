package config

import "testing"

// TestProblemsSpare: what could be read goes with the problems, for who looks further.
func TestProblemsSpare(t *testing.T) {
	environ := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "k:9092", "BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "out", "BRIDGE_GROUP_ID": "g",
		"BRIDGE_SESSION_TIMEOUT": "1s",
	}
	_, err := Load(environ, "host-0")
	problems, ok := err.(*Problems) //nolint:errorlint // Load promises it
	if !ok {
		t.Fatalf("%v", err)
	}
	if !problems.Spare("KAFKA_", "BRIDGE_GROUP_ID") {
		t.Error("the names are said to be wrong")
	}
	if problems.Spare("BRIDGE_SESSION_TIMEOUT") || problems.Spare("BRIDGE_") {
		t.Error("the session timeout is said to be right")
	}
	if c := problems.Read; c == nil || c.Bridge.InstanceID != "host-0" || c.Bridge.SessionTimeout.Seconds() != 1 || !c.IsSet("BRIDGE_GROUP_ID") {
		t.Errorf("%+v", c)
	}
	if (&Problems{}).Spare() {
		t.Error("without a configuration nothing is right")
	}
}
