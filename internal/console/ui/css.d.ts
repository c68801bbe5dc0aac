// Style sheets that a script imports: esbuild puts them into a file of their own.
declare module "*.css";
