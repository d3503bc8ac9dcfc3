<?php

// Runs the tests of a contract and prints TAP.

define('HOST', getenv('DROPIN_HOST'));
define('PORT', (int) getenv('DROPIN_PORT'));

// What the libraries of Debian warn of on a newer PHP is not about the server.
error_reporting(E_ALL & ~E_DEPRECATED);
set_error_handler(function (int $level, string $message, string $file, int $line) {
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
    return true;
});

function server(int $database = 0): Redis
{
    $redis = new Redis();
    $redis->connect(HOST, PORT);
    $redis->select($database);
    return $redis;
}

// check runs a test on an empty server. It passes if it throws nothing.
function check(string $title, callable $body): void
{
    static $number = 0;
    $number++;
    server()->flushAll();
    try {
        $body();
        echo "ok $number - $title\n";
    } catch (Throwable $e) {
        echo "not ok $number - $title\n";
        fwrite(STDERR, $title . ': ' . get_class($e) . ': ' . $e->getMessage() . "\n" . $e->getTraceAsString() . "\n");
    }
}

function equal($want, $got, string $what = ''): void
{
    if ($want !== $got) {
        throw new Exception("$what want " . var_export($want, true) . ', got ' . var_export($got, true));
    }
}

function within($low, $high, $got, string $what = ''): void
{
    if ($got < $low || $got > $high) {
        throw new Exception("$what want $low to $high, got " . var_export($got, true));
    }
}

// count_of runs a function in processes at once, each of which returns how
// often it was admitted, and returns the sum.
function count_of(int $processes, callable $body): int
{
    $files = [];
    for ($i = 0; $i < $processes; $i++) {
        $file = tempnam(sys_get_temp_dir(), 'dropin');
        $files[] = $file;
        if (pcntl_fork() === 0) {
            try {
                file_put_contents($file, (string) $body());
            } catch (Throwable $e) {
                fwrite(STDERR, get_class($e) . ': ' . $e->getMessage() . "\n");
            } finally {
                posix_kill(getmypid(), SIGKILL); // nothing of the parent's is to be closed
            }
        }
    }
    while (pcntl_wait($status) > 0) {
    }
    $sum = 0;
    foreach ($files as $file) {
        $sum += (int) file_get_contents($file);
        unlink($file);
    }
    return $sum;
}
