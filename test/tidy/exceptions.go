package tidy

// exceptions lists tolerated findings: a finding's key and the size that it may have. Entries are
// only lowered or removed; see Except.
var exceptions = map[string]int{}
