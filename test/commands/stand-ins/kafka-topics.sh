#!/bin/bash
# Kafka's own tool is not among the jars of the tests: the test's program makes the topic.
COMMANDS_STAND_IN=1 exec "$PROGRAM" "$@"
