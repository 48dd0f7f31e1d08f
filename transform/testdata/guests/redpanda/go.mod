module guest

go 1.24

require github.com/redpanda-data/redpanda/src/transform-sdk/go/transform v1.1.0
