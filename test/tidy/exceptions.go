package tidy

// exceptions lists what breaks a rule and is let be: a finding's key and the size that it may have. Entries are only
// ever lowered or removed; see Except.
var exceptions = map[string]int{}
