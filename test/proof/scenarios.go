package proof

// scenarios are the situations that a bridge between Kafka topics has to survive.
var scenarios = []Case{}
