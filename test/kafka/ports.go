package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports lie below the usual range of ephemeral ports (32768 and up on
// Linux): a broker that is killed and started again needs its old port back,
// and an outgoing connection of any process could have taken it meanwhile.
const (
	firstPort = 18000
	lastPort  = 32000
)

// loopback is where brokers listen by default.
const loopback = "127.0.0.1"

// freePorts finds n ports of host nobody listens on. All are held open until
// all are found, so they differ.
func freePorts(host string, n int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("no %d free ports of %s between %d and %d", n, host, firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", address(host, port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return ports, nil
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
