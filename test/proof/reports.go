package proof

// reports are faults of bridges, clients and brokers that others met and described in public.
var reports = []Case{}
