// Package java runs Java clients and Kafka's command line tools against `seb serve`. Folder src has the program that the tests
// compile and run, old what clients of every version can run, examples the programs that docs/kafka.md shows. Jars come from
// Maven Central into the cache folder, as pom.xml and clients.xml name them; Java and Maven must be there.
package java
