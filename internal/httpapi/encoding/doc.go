// Package encoding holds the forms in which records travel in HTTP bodies: multipart with a list of sizes, JSON, lines of
// text. It reads them into batches and writes them from batches, in memory that was reserved before (Memory), and knows
// neither HTTP nor the broker. Faults are problems of package api that name the member or part at fault.
package encoding
