// Package kafka starts real Apache Kafka brokers for the tests and for people.
//
// It is not part of the product. It fetches Kafka's jars from Maven Central
// once into a cache folder (see CacheDir), formats one or three KRaft nodes
// (broker and controller in one process) on free loopback ports and runs them
// with the java found in PATH. A container engine is not needed.
//
// In a test package that shares one broker between its tests:
//
//	func TestMain(m *testing.M) { os.Exit(kafka.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		c := kafka.Shared(t, kafka.V44)
//		topic := c.Topic(t, 2)
//		cl := c.Client(t, kgo.ConsumeTopics(topic))
//		...
//	}
//
// A test that kills brokers, needs three of them or changes a feature starts
// its own with Start. Without java or Maven such tests are skipped with the
// reason; with CI=true in the environment they fail.
//
// What differs from a plain Kafka, so that tests are quick: see defaults in
// node.go. Every value can be put back with Options.Properties.
package kafka
