// Package cluster puts the bridge's binary before a cluster of three brokers,
// Apache Kafka 4.4.0, and does to the cluster what production does: brokers
// crash, are restarted one after the other or all at once, coordinators and
// leaders move, a disk is full, the network between the bridge and one broker
// loses one direction, transaction.version is upgraded. What comes out is judged
// by package oracle, all the time and at the end; no time is asserted.
//
// Three brokers, a bridge and its readers are much for two cores. So all of it
// runs in
//
//	make proof-cluster
//
// or go test ./test/cluster -timeout 40m -args -long, one case after the other;
// go test -run names single ones. Otherwise only the rig's own tests run.
//
// A [Namespace] is a network namespace that one process of the bridge runs in,
// and a [Volume] a small file system that can be filled. Both need Linux, root,
// and Debian's packages iproute2 and iptables (make setup-debian).
package cluster
