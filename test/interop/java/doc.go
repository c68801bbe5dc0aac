// Package java runs Java clients and Kafka's command line tools against `seb serve`:
//
//	src        the program that the tests compile and run
//	old        a program for clients of every version
//	examples   the programs in docs/guide/kafka.md
//	streams    a program for Kafka Streams
//
// Connect and MirrorMaker 2 run unmodified. The tests download jars from Maven Central into the
// cache folder, as listed in pom.xml and the other XML files. They need Java and Maven.
package java
